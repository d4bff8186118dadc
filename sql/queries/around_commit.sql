-- What happened around this commit: the prompts, replies, edits and commands of its session before it?
--   timestamp (time): when it happened
--   what (text, outcome): prompt, reply, edit, command, commit, push or pr
--   text (text, about): the text, the file, the command or the commit
--   status (text): how a command ended
--   lines (text): lines that an edit added and removed
--   session_id (id, always): the session
--   turn_id (id, detail): the human request
-- :sha: the commit, or its beginning
-- :minutes = 60: how many minutes before the commit
-- example: ctxdb query around_commit -p sha 41c09be
WITH made AS (
  SELECT g.session_id, g.timestamp, g.sha, strftime('%Y-%m-%dT%H:%M:%fZ', g.timestamp, '-' || :minutes || ' minutes') AS since,
    strftime('%Y-%m-%dT%H:%M:%fZ', g.timestamp, '+5 minutes') AS until
  FROM git_operations g
  -- A transcript has the short form of the hash; a person may give the long one.
  WHERE g.kind = 'commit' AND length(:sha) >= 4 AND length(g.sha) >= 4
    AND (substr(lower(g.sha), 1, length(:sha)) = lower(:sha) OR substr(lower(:sha), 1, length(g.sha)) = lower(g.sha))
)
SELECT t.started_at AS timestamp, 'prompt' AS what, t.prompt AS text, NULL AS status, NULL AS lines, t.session_id AS session_id, t.id AS turn_id
FROM made c JOIN turns t ON t.session_id = c.session_id AND t.started_at BETWEEN c.since AND c.until
UNION ALL
SELECT m.timestamp, 'reply', m.text, NULL, NULL, m.session_id, m.turn_id
FROM made c JOIN messages m ON m.session_id = c.session_id AND m.timestamp BETWEEN c.since AND c.until
WHERE m.kind = 'assistant' AND trim(m.text, char(9, 10, 13, 32)) <> '' AND m.is_sidechain = 0
UNION ALL
SELECT f.timestamp, 'edit', coalesce(f.relative_path, f.path), NULL, '+' || coalesce(f.lines_added, 0) || ' -' || coalesce(f.lines_removed, 0), f.session_id, f.turn_id
FROM made c JOIN files_touched f ON f.session_id = c.session_id AND f.timestamp BETWEEN c.since AND c.until
WHERE f.succeeded = 1 AND f.operation IN ('create', 'write', 'edit', 'notebook_edit', 'delete')
UNION ALL
SELECT u.started_at, 'command', coalesce(CASE WHEN json_valid(u.input) THEN json_extract(u.input, '$.command') END, u.target), u.status || coalesce(' ' || nullif(u.exit_code, 0), ''), NULL, u.session_id, u.turn_id
FROM made c JOIN tool_uses u ON u.session_id = c.session_id AND u.started_at BETWEEN c.since AND c.until
WHERE u.name IN ('Bash', 'PowerShell')
UNION ALL
SELECT g.timestamp, g.kind, coalesce(g.sha || coalesce(' ' || g.subject, ''), g.pr_url, '#' || g.pr_number, g.branch), NULL, NULL, g.session_id, g.turn_id
FROM made c JOIN git_operations g ON g.session_id = c.session_id AND g.timestamp BETWEEN c.since AND c.until
ORDER BY timestamp
