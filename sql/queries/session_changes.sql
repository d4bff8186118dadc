-- What did a session change: each file with its edits and lines?
--   path (path, about): the file; its path below the project's folder if it is in there
--   edits (number): times it was changed
--   created (number): 1 if the session created it
--   lines_added (number): lines added
--   lines_removed (number): lines removed
--   reads (number): times it was read
--   by_agents (number): how many of the edits subagents made
--   first_edit_at (time, detail): when it was first changed
--   last_edit_at (time): when it was last changed
--   prompts (text): the human requests that led to the edits
--   session_id (id, always): the session
-- :session (session) = last: beginning of the session's id, its slug, or last
-- example: ctxdb query session_changes -p session 8e52
WITH one AS (
  SELECT id FROM sessions
  WHERE (:session = 'last' AND ended_at IS NOT NULL) OR substr(id, 1, length(:session)) = lower(:session) OR slug = :session
  ORDER BY ended_at DESC LIMIT 1
)
SELECT coalesce(f.relative_path, f.path) AS path, sum(f.operation <> 'read') AS edits, max(f.operation = 'create') AS created,
  coalesce(sum(f.lines_added), 0) AS lines_added, coalesce(sum(f.lines_removed), 0) AS lines_removed, sum(f.operation = 'read') AS reads,
  sum(f.operation <> 'read' AND f.agent_id IS NOT NULL) AS by_agents,
  min(CASE WHEN f.operation <> 'read' THEN f.timestamp END) AS first_edit_at, max(CASE WHEN f.operation <> 'read' THEN f.timestamp END) AS last_edit_at,
  (
    SELECT group_concat(prompt, char(10)) FROM (
      SELECT DISTINCT '- ' || CASE WHEN length(text) <= 100 THEN text WHEN space > 50 THEN rtrim(substr(text, 1, space)) || '…' ELSE substr(text, 1, 99) || '…' END AS prompt
      FROM ( -- space: where the last space of the first 100 characters is
        SELECT *, length(rtrim(substr(text, 1, 100), replace(substr(text, 1, 100), ' ', ''))) AS space
        FROM (
          SELECT replace(replace(trim(t.prompt), char(13), ' '), char(10), ' ') AS text
          FROM files_touched e JOIN turns t ON t.id = e.turn_id
          WHERE e.session_id = f.session_id AND e.path = f.path AND e.succeeded = 1 AND e.operation NOT IN ('read', 'mention', 'snapshot')
        )
      )
    )
  ) AS prompts, f.session_id
FROM files_touched f
WHERE f.session_id = (SELECT id FROM one) AND f.succeeded = 1 AND f.operation NOT IN ('mention', 'snapshot')
GROUP BY f.path
HAVING sum(f.operation <> 'read') > 0
ORDER BY first_edit_at, path
