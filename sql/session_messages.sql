-- What does a session read like as a whole, its own messages and those it shares with the session it came from?
--   session_id: the session that is read
--   message_id: the message
--   is_copy: 1 when another session owns the message
--   source_file_id: reading order: file
--   byte_start: reading order: place in the file
--   owner_session_id: the session that owns the message
--   uuid: the entry's uuid
--   type: its type
--   kind: its kind
--   timestamp: when
--   agent_id: agent, NULL for the main thread
--   text: its text
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
