-- What do people and rules refuse: which calls, and for which reason?
--   started_at (time): when it was refused; newest first
--   project (text): name of the project
--   tool (text): the tool
--   target (text, about): what the call was about
--   reason (text, outcome): what the person said; NULL if nothing was said
--   session_id (id, always): the session
--   turn_id (id, detail): the human request
-- filters: since=started_at project=session_id session=session_id
-- example: ctxdb query refusals --limit 20
SELECT u.started_at, p.name AS project, u.name AS tool, u.target, r.text AS reason, u.session_id, u.turn_id
FROM tool_uses u
LEFT JOIN sessions s ON s.id = u.session_id
LEFT JOIN projects p ON p.id = s.project_id
LEFT JOIN (SELECT a.tool_id, a.text FROM prompts a WHERE a.kind = 'refusal') r ON r.tool_id = u.id
WHERE u.status = 'rejected' AND u.status <> 'ok'
ORDER BY u.started_at DESC, u.id DESC
