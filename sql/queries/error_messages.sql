-- Which errors do tools report again and again?
--   errors (number): how many times it was reported
--   tool (text): the tool
--   message (text, outcome): the first line of what the tool said, without numbers
--   sessions (number): how many sessions had it
--   projects (text): the projects that had it
--   last_at (time): when it last happened
--   example (text): what the last of these calls was about
-- :since (since) = 30d: from when
-- :limit = 30: how many errors
-- filters: until=tool_errors.started_at project=tool_errors.session_id session=tool_errors.session_id
-- example: ctxdb query error_messages -p since 2025-01-01
SELECT count(*) AS errors, e.tool, e.message, count(DISTINCT e.session_id) AS sessions, group_concat(DISTINCT e.project) AS projects, max(e.started_at) AS last_at,
  e.target AS example
FROM (
  SELECT t.started_at, t.project, t.tool, t.target, t.session_id,
    -- A mark is put after each #, then every # after a mark is removed with it: one # is left of a row of them.
    replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(
      substr(said, 1, CASE instr(said, char(10)) WHEN 0 THEN 200 ELSE min(instr(said, char(10)) - 1, 200) END),
      '0', '#'), '1', '#'), '2', '#'), '3', '#'), '4', '#'), '5', '#'), '6', '#'), '7', '#'), '8', '#'), '9', '#'), '#', '#' || char(1114111)), char(1114111) || '#', ''), '#' || char(1114111), '#') AS message
  FROM (
    -- "Exit code 1" alone says little; the line after it says more.
    SELECT *, CASE WHEN message LIKE 'Exit code%' AND instr(message, char(10)) > 0
      THEN ltrim(substr(message, instr(message, char(10)) + 1), char(10, 13, 32)) ELSE message END AS said
    FROM tool_errors WHERE started_at >= :since
  ) t
) e
GROUP BY e.tool, e.message
ORDER BY errors DESC, last_at DESC, e.message
LIMIT :limit
