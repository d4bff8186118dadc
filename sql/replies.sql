-- What did the model answer, each reply whole: text, thinking, calls and tokens, one row per API message?
--   timestamp (time): when the reply began; newest first
--   project (text): name of the project
--   model (text): the model that answered
--   text (text, about): all text of the reply; a blank line separates its blocks
--   thinking (text): all thinking of the reply, as far as the transcript has it
--   calls (text): the tools it called, in order
--   tool_calls (number): how many tools it called
--   stop_reason (text): why the reply ended; NULL if the transcript does not say
--   input_tokens (tokens): input tokens that were neither written to the cache nor read from it
--   output_tokens (tokens): output tokens, thinking included; a lower bound unless output_is_final is 1
--   cache_write_tokens (tokens): tokens written to the cache
--   cache_read_tokens (tokens): tokens read from the cache
--   output_is_final (number, detail): 1 if output_tokens is final
--   session_id (id, always): the session
--   turn_id (id, detail): the human request that it answers
--   agent_id (id, detail): the agent that answered; NULL for the main thread
--   api_message_id (id, detail): id of the API message
--   request_id (id, detail): id of the API request
-- filters: since=timestamp,messages.timestamp until=timestamp project=session_id session=session_id model=model
-- period: 30d
-- example: ctxdb query replies --session 8e52 --columns timestamp,text,calls
SELECT u.timestamp AS timestamp, p.name AS project, u.model AS model,
  (
    SELECT group_concat(text, char(10, 10)) FROM (
      SELECT r.text FROM _reply_lines r WHERE r.request_key = u.request_key ORDER BY r.is_elsewhere, r.source_file_id, r.byte_start
    )
  ) AS text,
  (
    SELECT group_concat(thinking, char(10, 10)) FROM (
      SELECT r.thinking FROM _reply_lines r WHERE r.request_key = u.request_key ORDER BY r.is_elsewhere, r.source_file_id, r.byte_start
    )
  ) AS thinking,
  (
    SELECT group_concat(name, ', ') FROM ( -- a call with a unique id (toolu_) is stored once, with any of the lines that repeat it
      SELECT t.name FROM _usage_lines l JOIN messages m ON m.id = l.message_id JOIN tool_uses t ON t.message_id = m.id
      WHERE l.request_key = u.request_key AND l.part = 0
        AND (m.session_id IS u.session_id AND m.agent_id IS u.agent_id OR substr(t.tool_use_id, 1, 6) = 'toolu_')
      ORDER BY m.source_file_id, m.byte_start, t.id
    )
  ) AS calls,
  (
    SELECT count(*) FROM _usage_lines l JOIN tool_uses t ON t.message_id = l.message_id
    WHERE l.request_key = u.request_key AND l.part = 0
      AND (t.session_id IS u.session_id AND t.agent_id IS u.agent_id OR substr(t.tool_use_id, 1, 6) = 'toolu_')
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
WHERE EXISTS (SELECT 1 FROM _usage_lines l WHERE l.request_key = u.request_key AND l.part = 0) -- the reply of an advisor is part of another reply
UNION ALL -- replies without tokens or without a model, which other programs write
SELECT r.timestamp, p.name, r.model,
  (
    SELECT group_concat(text, char(10, 10)) FROM (
      SELECT m.text FROM json_each(r.lines) l JOIN messages m ON m.id = l.value ORDER BY m.source_file_id, m.byte_start
    )
  ),
  (
    SELECT group_concat(thinking, char(10, 10)) FROM (
      SELECT m.thinking FROM json_each(r.lines) l JOIN messages m ON m.id = l.value ORDER BY m.source_file_id, m.byte_start
    )
  ),
  (
    SELECT group_concat(name, ', ') FROM (
      SELECT t.name FROM json_each(r.lines) l JOIN messages m ON m.id = l.value JOIN tool_uses t ON t.message_id = m.id
      ORDER BY m.source_file_id, m.byte_start, t.id
    )
  ),
  (SELECT count(*) FROM json_each(r.lines) l JOIN tool_uses t ON t.message_id = l.value),
  r.stop_reason, NULL, NULL, NULL, NULL, NULL, r.session_id, r.turn_id, r.agent_id, r.api_message_id, r.request_id
FROM (
  SELECT min(m.timestamp) AS timestamp, max(m.model) AS model, json_group_array(m.id) AS lines, max(m.stop_reason) AS stop_reason,
    m.session_id, min(m.turn_id) AS turn_id, m.agent_id, m.api_message_id, max(m.request_id) AS request_id
  FROM messages m
  WHERE m.kind = 'assistant' AND NOT EXISTS (SELECT 1 FROM _usage_lines l WHERE l.message_id = m.id)
  GROUP BY m.session_id, m.agent_id, m.api_message_id, iif(m.api_message_id IS NULL, m.id, 0)
) r
LEFT JOIN sessions s ON s.id = r.session_id
LEFT JOIN projects p ON p.id = s.project_id
ORDER BY timestamp DESC
