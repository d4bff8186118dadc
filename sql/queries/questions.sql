-- What did the agent ask, and what was the answer?
--   asked_at (time): when it was asked; newest first
--   project (text): name of the project
--   question (text, about): the question
--   options (text): the answers that were offered
--   answer (text, outcome): the answer that was given; NULL if there was none
--   status (text): ok if it was answered
--   session_id (id, always): the session
--   turn_id (id, detail): the human request during which it was asked
-- filters: since=asked_at project=session_id session=session_id
-- example: ctxdb query questions --limit 20
SELECT u.started_at AS asked_at, p.name AS project, json_extract(q.value, '$.question') AS question,
  (SELECT group_concat(json_extract(o.value, '$.label'), ' | ') FROM json_each(q.value, '$.options') o) AS options,
  a.text AS answer, u.status, u.session_id, u.turn_id
FROM tool_uses u, json_each(CASE WHEN json_valid(u.input) THEN u.input ELSE '{}' END, '$.questions') q
LEFT JOIN sessions s ON s.id = u.session_id
LEFT JOIN projects p ON p.id = s.project_id
LEFT JOIN (
  SELECT tool_id, about, min(text) AS text FROM prompts WHERE kind = 'answer' GROUP BY tool_id, about
) a ON a.tool_id = u.id AND a.about = json_extract(q.value, '$.question')
WHERE u.name = 'AskUserQuestion' AND q.type = 'object'
ORDER BY u.started_at DESC, u.id DESC, q.key
