-- Which sessions stopped in the middle: a call without a result, a result or prompt without an answer, an interruption?
--   ended_at (time): last message; newest first
--   project (text): name of the project
--   title (text, about): the session's title
--   stopped_at (time): where it stopped: call (no result), result (no answer), prompt (no answer), interruption or API error
--   what (text, outcome): the calls, the prompt or the error
--   last_prompt (text): the last human request
--   resume (text): the command that resumes it; NULL if the transcript is deleted
--   session_id (id, always): the session
--   turn_id (id, detail): the last human request
-- :since (since) = 30d: from when
-- filters: until=ended_at project=session_id session=session_id
-- example: ctxdb query unfinished -p since 2025-01-01
WITH last AS MATERIALIZED (
  SELECT s.id, s.ended_at, s.title, s.project_id, s.cwd, s.source_deleted_at, (
      SELECT m.id FROM messages m
      WHERE m.session_id = s.id AND m.is_sidechain = 0 AND m.kind NOT IN ('system', 'attachment', 'meta', 'command_output', 'notification', 'compact_summary')
      ORDER BY m.source_file_id DESC, m.byte_start DESC LIMIT 1
    ) AS message_id
  FROM sessions s
  WHERE s.ended_at >= :since
),
-- A reply can call several tools at once, and the result of one of them can be the last line.
reply AS MATERIALIZED (
  SELECT l.id, m.kind, coalesce(a.api_message_id, '') AS api_message_id, a.id AS message_id
  FROM last l
  JOIN messages m ON m.id = l.message_id AND m.kind IN ('assistant', 'tool_result')
  JOIN messages a ON a.id = (
    SELECT r.id FROM messages r WHERE r.session_id = l.id AND r.is_sidechain = 0 AND r.kind = 'assistant'
    ORDER BY r.source_file_id DESC, r.byte_start DESC LIMIT 1
  )
),
called AS MATERIALIZED (
  SELECT r.id, max(u.status = 'pending') AS is_pending,
    group_concat(u.name || coalesce(': ' || u.target, ''), char(10)) FILTER (WHERE u.status = 'pending') AS calls,
    group_concat(u.name || coalesce(': ' || u.target, ''), char(10)) FILTER (WHERE u.status IN ('ok', 'error')) AS results
  FROM reply r
  CROSS JOIN tool_uses u ON u.session_id = r.id AND u.agent_id IS NULL
  JOIN messages n ON n.id = u.message_id AND (n.id = r.message_id OR n.api_message_id = r.api_message_id)
  GROUP BY r.id
  HAVING is_pending OR r.kind = 'tool_result' AND results IS NOT NULL
)
SELECT l.ended_at, p.name AS project, coalesce(l.title, '(untitled)') AS title,
  CASE WHEN c.is_pending THEN 'call' WHEN c.id IS NOT NULL THEN 'result' WHEN m.kind = 'synthetic' THEN 'API error'
    WHEN m.kind = 'interruption' THEN 'interruption' ELSE 'prompt' END AS stopped_at,
  CASE WHEN c.is_pending THEN c.calls WHEN c.id IS NOT NULL THEN c.results WHEN m.kind IN ('human', 'synthetic') THEN m.text END AS what,
  t.prompt AS last_prompt,
  CASE WHEN l.source_deleted_at IS NULL THEN
    coalesce('cd ' || char(39) || replace(l.cwd, char(39), char(39, 92, 39, 39)) || char(39) || ' && ', '') || 'claude --resume ' || l.id
  END AS resume,
  l.id AS session_id, m.turn_id
FROM last l
JOIN messages m ON m.id = l.message_id
LEFT JOIN called c ON c.id = l.id
LEFT JOIN turns t ON t.id = m.turn_id
LEFT JOIN projects p ON p.id = l.project_id
WHERE c.id IS NOT NULL OR m.kind IN ('human', 'interruption')
  OR (m.kind = 'synthetic' AND json_valid(m.data) AND json_extract(m.data, '$.isApiErrorMessage') = 1)
ORDER BY l.ended_at DESC, l.id
