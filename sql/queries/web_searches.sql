-- What was looked up on the web, and what led to it?
--   started_at (time): when it happened; newest first
--   project (text): name of the project
--   tool (text): WebSearch or WebFetch
--   target (text, about): the search, or the page
--   status (text): how the call ended
--   result (text): the beginning of the result
--   prompt (text, outcome): the human request that led to it
--   session_id (id, always): the session
--   turn_id (id, detail): the row of turns for this human request
-- :text = %: only searches and pages with this text
-- filters: since=started_at project=session_id session=session_id
-- example: ctxdb query web_searches --limit 20
SELECT u.started_at, p.name AS project, u.name AS tool, u.target, u.status, substr(u.result_text, 1, 300) AS result, t.prompt, u.session_id, u.turn_id
FROM tool_uses u
LEFT JOIN turns t ON t.id = u.turn_id
LEFT JOIN sessions s ON s.id = u.session_id
LEFT JOIN projects p ON p.id = s.project_id
WHERE u.name IN ('WebSearch', 'WebFetch') AND (:text = '%' OR instr(lower(u.target), lower(:text)) > 0)
ORDER BY u.started_at DESC, u.id DESC
