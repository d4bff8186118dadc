-- Which calls of this tool took longest?
--   seconds (seconds): from the call to its result, the wait for approval included
--   tool_seconds (seconds): the duration that the tool itself reports, if it does
--   target (text, about): what the call was about
--   status (text): how the call ended
--   project (text): name of the project
--   started_at (time): when it was called
--   prompt (text, outcome): the human request that led to it
--   session_id (id, always): the session
--   turn_id (id, detail): the row of turns for this human request
-- :tool = Bash: the tool
-- :limit = 20: how many calls
-- filters: since=tool_uses.started_at project=tool_uses.session_id session=tool_uses.session_id
-- example: ctxdb query slowest_calls -p tool Bash --limit 5
SELECT round(u.duration_ms / 1000.0, 1) AS seconds, round(u.tool_ms / 1000.0, 1) AS tool_seconds, u.target, u.status, p.name AS project, u.started_at,
  t.prompt, u.session_id, u.turn_id
FROM tool_uses u
LEFT JOIN turns t ON t.id = u.turn_id
LEFT JOIN sessions s ON s.id = u.session_id
LEFT JOIN projects p ON p.id = s.project_id
WHERE u.name = :tool COLLATE NOCASE AND u.duration_ms IS NOT NULL
ORDER BY u.duration_ms DESC, u.id
LIMIT :limit
