-- Which shell commands were run, where, and how did they end?
--   started_at (time): when it happened; newest first
--   project (text): name of the project
--   command (text, about): the command
--   description (text): what the agent said the command is for
--   status (text): ok, error, rejected, interrupted or pending
--   exit_code (id): 0 for a command that succeeded; NULL if it is not known
--   duration_ms (number): milliseconds from the call to its result, the wait for approval included
--   result_bytes (bytes): size of the output
--   session_id (id, always): the session
--   turn_id (id, detail): the human request that led to it
--   agent_id (id, detail): the agent that ran it; NULL for the main thread
--   tool_use_id (id, detail): the id that the API gave the call
-- filters: since=started_at project=session_id session=session_id
-- period: 30d
-- example: ctxdb query bash_commands --project lantern --limit 20
SELECT t.started_at AS started_at, p.name AS project, coalesce(CASE WHEN json_valid(t.input) THEN json_extract(t.input, '$.command') END, t.target) AS command, CASE WHEN json_valid(t.input) THEN json_extract(t.input, '$.description') END AS description,
  t.status, t.exit_code, t.duration_ms, t.result_bytes, t.session_id, t.turn_id, t.agent_id, t.tool_use_id
FROM tool_uses t
LEFT JOIN sessions s ON s.id = t.session_id
LEFT JOIN projects p ON p.id = s.project_id
WHERE t.name = 'Bash'
UNION ALL -- the same on Windows; two lists in order of time can be merged, a single list would have to be sorted
SELECT t.started_at, p.name, coalesce(CASE WHEN json_valid(t.input) THEN json_extract(t.input, '$.command') END, t.target), CASE WHEN json_valid(t.input) THEN json_extract(t.input, '$.description') END,
  t.status, t.exit_code, t.duration_ms, t.result_bytes, t.session_id, t.turn_id, t.agent_id, t.tool_use_id
FROM tool_uses t
LEFT JOIN sessions s ON s.id = t.session_id
LEFT JOIN projects p ON p.id = s.project_id
WHERE t.name = 'PowerShell'
ORDER BY started_at DESC
