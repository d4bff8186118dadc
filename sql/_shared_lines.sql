-- Which lines does a session show that another session owns, and where are they?
--   session_id: the session that shows the line
--   message_id: the message
--   uuid: the uuid of the line in that session
--   source_file_id: the file that the line is in
--   byte_start: the position in that file
-- Usually these are copies in a file of the session. After a resume by an old version, the parent's own transcript
-- may be missing, or the name of a file may not say whose it is: then the parent's lines are among the session's own.
-- With INDEXED BY, and with nullif() instead of NULL, SQLite does not first read all messages into an index or filter of its own.
SELECT f.session_id, c.message_id, c.uuid, c.source_file_id, c.byte_start
FROM message_copies c
JOIN source_files f ON f.id = c.source_file_id
JOIN messages m ON m.id = c.message_id
WHERE f.session_id IS NOT m.session_id
UNION ALL
SELECT s.id, m.id, m.uuid, m.source_file_id, m.byte_start
FROM sessions s
CROSS JOIN _session_files l ON l.session_id = s.id
CROSS JOIN messages m INDEXED BY messages_session_id ON m.session_id = s.parent_session_id AND m.source_file_id = l.source_file_id
WHERE s.parent_session_id <> s.id AND s.relation IS NOT 'clear' AND s.relation IS NOT 'plan' AND m.agent_id IS nullif(s.id, s.id)
  AND EXISTS (SELECT 1 FROM messages o WHERE o.session_id = s.id AND o.source_file_id = l.source_file_id)
UNION ALL
SELECT s.id, m.id, c.uuid, c.source_file_id, c.byte_start
FROM sessions s
CROSS JOIN _session_files l ON l.session_id = s.id
CROSS JOIN source_files f ON f.id = l.source_file_id
CROSS JOIN message_copies c ON c.source_file_id = f.id
CROSS JOIN messages m ON m.id = c.message_id AND m.session_id = s.parent_session_id
WHERE s.parent_session_id <> s.id AND s.relation IS NOT 'clear' AND s.relation IS NOT 'plan' AND m.agent_id IS nullif(s.id, s.id) AND f.session_id IS NOT s.id
  AND EXISTS (SELECT 1 FROM messages o WHERE o.session_id = s.id AND o.source_file_id = l.source_file_id)
