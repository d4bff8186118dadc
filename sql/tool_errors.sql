-- Which calls failed, and what did the tool say?
--   started_at (time): when it was called, newest first
--   project (text): name of the project
--   tool (text): today's name of the tool
--   target (text, about): what it was about: command, file path, pattern, url
--   message (text, outcome): what the tool said, its first 1,000 characters
--   exit_code (id): of a shell command
--   duration_ms (number): from call to result, approval included
--   session_id (id, always): the session
--   turn_id (id, detail): the human request that led to it
--   agent_id (id, detail): the agent that called, NULL for the main thread
--   tool_use_id (id, detail): the call's own id
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
