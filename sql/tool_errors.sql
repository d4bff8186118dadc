-- Which calls failed, and what did the tool say?
--   started_at (time): when the tool was called; newest first
--   project (text): name of the project
--   tool (text): the current name of the tool
--   target (text, about): what the call was about: a command, file path, pattern or URL
--   message (text, outcome): the first 1,000 characters of what the tool said
--   exit_code (id): the exit code of a shell command
--   duration_ms (number): milliseconds from the call to its result, the wait for approval included
--   session_id (id, always): the session
--   turn_id (id, detail): the human request that led to it
--   agent_id (id, detail): the agent that called it; NULL for the main thread
--   tool_use_id (id, detail): the id that the API gave the call
-- filters: since=started_at project=session_id session=session_id
-- period: 30d
-- example: ctxdb query tool_errors --since 7d --limit 20
SELECT t.started_at, p.name AS project, t.name AS tool, t.target,
  substr(replace(replace(t.result_text, '<tool_use_error>', ''), '</tool_use_error>', ''), 1, 1000) AS message,
  t.exit_code, t.duration_ms, t.session_id, t.turn_id, t.agent_id, t.tool_use_id
FROM tool_uses t
LEFT JOIN sessions s ON s.id = t.session_id
LEFT JOIN projects p ON p.id = s.project_id
WHERE t.status = 'error' AND t.status <> 'ok'
ORDER BY t.started_at DESC, t.id DESC
