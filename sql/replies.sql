-- What did the model answer, each reply whole: text, thinking, calls and tokens, one row per API message?
--   timestamp: when it began, newest first
--   project: name of the project
--   model: the model that answered
--   text: all it said, its blocks joined by a blank line
--   thinking: all it thought, as far as the transcript shows it
--   calls: the tools it called, in order
--   tool_calls: how many
--   stop_reason: why it ended; NULL where the transcript does not say
--   input_tokens: input that was neither written to nor read from the cache
--   output_tokens: output, thinking included; a lower bound unless output_is_final
--   cache_write_tokens: written to the cache
--   cache_read_tokens: read from the cache
--   output_is_final: 1 when output_tokens is final
--   session_id: the session
--   turn_id: the human request that it answers
--   agent_id: the agent that answered, NULL for the main thread
--   api_message_id: id of the API message
--   request_id: id of the API request
-- filters: since=timestamp project=session_id session=session_id model=model
-- period: 30d
-- example: ctxdb query replies --session 8e52 --columns timestamp,text,calls
SELECT u.timestamp AS timestamp, p.name AS project, u.model AS model,
  (
    SELECT group_concat(text, char(10, 10)) FROM (
      SELECT m.text FROM _usage_lines l JOIN messages m ON m.id = l.message_id
      WHERE l.request_key = u.request_key AND l.part = 0 ORDER BY m.source_file_id, m.byte_start
    )
  ) AS text,
  (
    SELECT group_concat(thinking, char(10, 10)) FROM (
      SELECT m.thinking FROM _usage_lines l JOIN messages m ON m.id = l.message_id
      WHERE l.request_key = u.request_key AND l.part = 0 ORDER BY m.source_file_id, m.byte_start
    )
  ) AS thinking,
  (
    SELECT group_concat(name, ', ') FROM (
      SELECT t.name FROM _usage_lines l JOIN messages m ON m.id = l.message_id JOIN tool_uses t ON t.message_id = m.id
      WHERE l.request_key = u.request_key AND l.part = 0 ORDER BY m.source_file_id, m.byte_start, t.id
    )
  ) AS calls,
  (
    SELECT count(*) FROM _usage_lines l JOIN tool_uses t ON t.message_id = l.message_id
    WHERE l.request_key = u.request_key AND l.part = 0
  ) AS tool_calls,
  (
    SELECT max(m.stop_reason) FROM _usage_lines l JOIN messages m ON m.id = l.message_id
    WHERE l.request_key = u.request_key AND l.part = 0
  ) AS stop_reason,
  u.input_tokens AS input_tokens, u.output_tokens AS output_tokens, u.cache_write_5m_tokens + u.cache_write_1h_tokens AS cache_write_tokens,
  u.cache_read_tokens AS cache_read_tokens, u.output_is_final AS output_is_final,
  u.session_id AS session_id, u.turn_id AS turn_id, u.agent_id AS agent_id, u.api_message_id AS api_message_id, u.request_id AS request_id
FROM usage u
LEFT JOIN sessions s ON s.id = u.session_id
LEFT JOIN projects p ON p.id = s.project_id
WHERE EXISTS (SELECT 1 FROM _usage_lines l WHERE l.request_key = u.request_key AND l.part = 0) -- an advisor's answer is part of another reply
UNION ALL -- replies that tell nothing of tokens: other programs write such lines
SELECT m.timestamp, p.name, m.model, m.text, m.thinking,
  (SELECT group_concat(t.name, ', ') FROM tool_uses t WHERE t.message_id = m.id),
  (SELECT count(*) FROM tool_uses t WHERE t.message_id = m.id),
  m.stop_reason, NULL, NULL, NULL, NULL, NULL, m.session_id, m.turn_id, m.agent_id, m.api_message_id, NULL
FROM messages m
LEFT JOIN sessions s ON s.id = m.session_id
LEFT JOIN projects p ON p.id = s.project_id
WHERE m.kind = 'assistant' AND m.request_id IS NULL AND NOT EXISTS (SELECT 1 FROM _usage_lines l WHERE l.message_id = m.id)
ORDER BY timestamp DESC
