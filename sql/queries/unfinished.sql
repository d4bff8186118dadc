-- Which sessions stopped in the middle: a call without a result, a prompt without an answer, an interruption?
--   ended_at: last message, newest first
--   project: name of the project
--   title: the session's title
--   stopped_at: call (no result), prompt (no answer), interruption or API error
--   what: the call, the prompt or the error
--   last_prompt: what was asked last
--   resume: how to go on
--   session_id: the session
--   turn_id: the last request
-- :since (time) = 30d: from when
-- filters: until=ended_at project=session_id session=session_id
-- example: ctxdb query unfinished -p since 2025-01-01
WITH last AS MATERIALIZED (
  SELECT s.id, s.ended_at, s.title, s.project_id, s.cwd, (
      SELECT m.id FROM messages m
      WHERE m.session_id = s.id AND m.is_sidechain = 0 AND m.kind NOT IN ('system', 'attachment', 'meta', 'command_output', 'notification', 'compact_summary')
      ORDER BY m.source_file_id DESC, m.byte_start DESC LIMIT 1
    ) AS message_id
  FROM sessions s
  WHERE s.ended_at >= :since
)
SELECT l.ended_at, p.name AS project, l.title,
  CASE WHEN m.kind = 'assistant' THEN 'call' WHEN m.kind = 'synthetic' THEN 'API error' WHEN m.kind = 'interruption' THEN 'interruption' ELSE 'prompt' END AS stopped_at,
  CASE WHEN m.kind = 'assistant' THEN u.name || coalesce(': ' || u.target, '') WHEN m.kind IN ('human', 'synthetic') THEN m.text END AS what,
  t.prompt AS last_prompt, coalesce('cd ' || char(39) || replace(l.cwd, char(39), char(39, 92, 39, 39)) || char(39) || ' && ', '') || 'claude --resume ' || l.id AS resume,
  l.id AS session_id, m.turn_id
FROM last l
JOIN messages m ON m.id = l.message_id
LEFT JOIN tool_uses u ON u.message_id = m.id AND u.status = 'pending'
LEFT JOIN turns t ON t.id = m.turn_id
LEFT JOIN projects p ON p.id = l.project_id
WHERE u.id IS NOT NULL OR m.kind IN ('human', 'interruption')
  OR (m.kind = 'synthetic' AND json_valid(m.data) AND json_extract(m.data, '$.isApiErrorMessage') = 1)
ORDER BY l.ended_at DESC, l.id
