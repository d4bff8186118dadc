-- Where did people stop the agent, and what was it doing?
--   timestamp (time): when it happened; newest first
--   project (text): name of the project
--   during (text): reply (it was thinking or writing) or tool use (a call was running or waiting for approval)
--   tool (text): the tool that was used last, if the last thing was a call
--   target (text, about): what that call was about
--   status (text): how that call ended
--   doing (text): the last thing that the agent said
--   seconds (seconds): how long after the human request
--   prompt (text, outcome): the human request that the agent worked on
--   next_prompt (text): what the person asked next
--   session_id (id, always): the session
--   turn_id (id, detail): the row of turns for this human request
--   message_id (id, detail): the message that records it
-- filters: since=timestamp project=session_id session=session_id
-- example: ctxdb query interruptions --limit 10
SELECT m.timestamp, p.name AS project, CASE WHEN m.text LIKE '%for tool use%' THEN 'tool use' ELSE 'reply' END AS during,
  u.name AS tool, u.target, u.status,
  (
    SELECT a.text FROM messages a
    WHERE a.session_id = m.session_id AND a.source_file_id = m.source_file_id AND a.byte_start < m.byte_start AND a.turn_id IS m.turn_id
      AND a.kind = 'assistant' AND trim(a.text, char(9, 10, 13, 32)) <> '' AND a.is_sidechain = 0
    ORDER BY a.byte_start DESC LIMIT 1
  ) AS doing,
  round((julianday(m.timestamp) - julianday(t.started_at)) * 86400, 1) AS seconds,
  t.prompt, n.prompt AS next_prompt, m.session_id, m.turn_id, m.id AS message_id
FROM messages m
LEFT JOIN sessions s ON s.id = m.session_id
LEFT JOIN projects p ON p.id = s.project_id
LEFT JOIN turns t ON t.id = m.turn_id
LEFT JOIN turns n ON n.session_id = m.session_id AND n.ordinal = coalesce(t.ordinal, 0) + 1
LEFT JOIN tool_uses u ON u.id = (
  SELECT max(c.id) FROM tool_uses c WHERE c.message_id = (
    SELECT a.id FROM messages a
    WHERE a.session_id = m.session_id AND a.source_file_id = m.source_file_id AND a.byte_start < m.byte_start AND a.turn_id IS m.turn_id
      AND a.kind = 'assistant' AND a.is_sidechain = 0
    ORDER BY a.byte_start DESC LIMIT 1
  )
)
WHERE m.kind = 'interruption' AND m.is_sidechain = 0
ORDER BY m.timestamp DESC, m.id DESC
