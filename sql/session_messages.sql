-- What are all messages of a session, including those of the session that it continues?
--   session_id (id, always): the session
--   message_id (id, detail): the message
--   is_copy (number, detail): 1 if another session owns the message
--   source_file_id (id, detail): reading order: the file
--   byte_start (id, detail): reading order: the position in the file
--   owner_session_id (id, detail): the session that owns the message
--   uuid (id, detail): the uuid of the entry
--   type (text): the type of the entry
--   kind (text): the kind of the message
--   timestamp (time): when it happened
--   agent_id (id, detail): the agent; NULL for the main thread
--   text (text, about): the text of the message
-- filters: since=timestamp project=session_id session=session_id
-- example: ctxdb query session_messages --session 8e52 --columns timestamp,kind,is_copy,text
SELECT m.session_id, m.id AS message_id, 0 AS is_copy, m.source_file_id, m.byte_start,
  m.session_id AS owner_session_id, m.uuid, m.type, m.kind, m.timestamp, m.agent_id, m.text
FROM messages m
UNION ALL
SELECT c.session_id, m.id, 1, c.source_file_id, c.byte_start,
  m.session_id, c.uuid, m.type, m.kind, m.timestamp, m.agent_id, m.text
FROM _shared_lines c
JOIN messages m ON m.id = c.message_id
ORDER BY session_id, source_file_id, byte_start
