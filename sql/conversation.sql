-- What happened in a session: prompts, replies and calls in reading order, including those of an earlier session that it shows?
--   session_id (id, always): the session
--   source_file_id (id, detail): reading order: the file; each agent has its own file
--   byte_start (id, detail): reading order: the position in the file
--   timestamp (time): when it happened
--   agent_id (id, detail): the agent; NULL for the main thread
--   kind (text): prompt, command, shell, queued, sdk (as turns.kind), reply, thinking, call, or another kind of message
--   text (text, about): what was said
--   tool (text): the tool that was called
--   target (text, outcome): what the call was about
--   status (text): how the call ended: ok, error, rejected, interrupted or pending
--   duration_ms (number): milliseconds from the call to its result, the wait for approval included
--   result (text): the first 1,000 characters of what the call returned
--   turn_id (id, detail): the human request it belongs to
--   message_id (id, detail): the message; NULL for a prompt that waited in the queue
--   tool_use_id (id, detail): the id that the API gave the call
--   is_copy (number, detail): 1 if an earlier session owns the message
-- filters: since=timestamp project=session_id session=session_id
-- example: ctxdb query conversation --session 8e52 --columns timestamp,kind,text,tool,target,status
SELECT m.session_id AS session_id, m.source_file_id AS source_file_id, m.byte_start AS byte_start, m.timestamp AS timestamp, m.agent_id AS agent_id,
  CASE WHEN a.id IS NOT NULL THEN a.kind WHEN m.kind <> 'assistant' THEN m.kind WHEN t.id IS NOT NULL THEN 'call'
    WHEN m.text IS NULL THEN 'thinking' ELSE 'reply' END AS kind,
  -- A line can have text and several calls; the text is in the row of the first call.
  CASE WHEN m.subtype IS 'mixed' AND EXISTS (SELECT 1 FROM tool_uses e WHERE e.message_id = m.id AND e.id < t.id) THEN NULL
    ELSE coalesce(a.prompt, m.text, m.thinking) END AS text,
  t.name AS tool, t.target AS target, t.status AS status, t.duration_ms AS duration_ms, substr(t.result_text, 1, 1000) AS result,
  m.turn_id AS turn_id, m.id AS message_id, t.tool_use_id AS tool_use_id, 0 AS is_copy
FROM messages m
LEFT JOIN tool_uses t ON t.message_id = m.id
LEFT JOIN turns a ON a.message_id = m.id
WHERE (a.id IS NOT NULL OR t.id IS NOT NULL OR (m.kind NOT IN ('meta', 'system', 'attachment', 'tool_result')
  AND (trim(m.text, char(9, 10, 13, 32)) <> '' OR m.thinking IS NOT NULL)))
UNION ALL -- messages that another session owns
SELECT c.session_id, c.source_file_id, c.byte_start, m.timestamp, m.agent_id,
  CASE WHEN a.id IS NOT NULL THEN a.kind WHEN m.kind <> 'assistant' THEN m.kind WHEN t.id IS NOT NULL THEN 'call'
    WHEN m.text IS NULL THEN 'thinking' ELSE 'reply' END,
  -- A line can have text and several calls; the text is in the row of the first call.
  CASE WHEN m.subtype IS 'mixed' AND EXISTS (SELECT 1 FROM tool_uses e WHERE e.message_id = m.id AND e.id < t.id) THEN NULL
    ELSE coalesce(a.prompt, m.text, m.thinking) END,
  t.name, t.target, t.status, t.duration_ms, substr(t.result_text, 1, 1000),
  m.turn_id, m.id, t.tool_use_id, 1
FROM _shared_lines c
JOIN messages m ON m.id = c.message_id
LEFT JOIN tool_uses t ON t.message_id = m.id
LEFT JOIN turns a ON a.message_id = m.id
WHERE (a.id IS NOT NULL OR t.id IS NOT NULL OR (m.kind NOT IN ('meta', 'system', 'attachment', 'tool_result')
  AND (trim(m.text, char(9, 10, 13, 32)) <> '' OR m.thinking IS NOT NULL)))
UNION ALL -- a prompt that waited in the queue has no message
SELECT a.session_id, a.source_file_id, a.byte_start, a.started_at, NULL, a.kind, a.prompt, NULL, NULL, NULL, NULL, NULL, a.id, NULL, NULL, 0
FROM turns a
WHERE a.message_id IS NULL
ORDER BY session_id, source_file_id, byte_start
