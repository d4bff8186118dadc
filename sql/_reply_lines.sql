-- Which lines make up the reply to each request?
--   request_key: the request
--   text: the text of the line
--   thinking: the thinking of the line
--   is_elsewhere: 1 for a line of another session, which comes last
--   source_file_id: the file that the line is in
--   byte_start: the position in that file
-- The lines of a request can be in several sessions, and, with new uuids, in sidechains that repeat the main thread.
-- The reply is made of the lines in the request's own session and thread. Lines of another session are added only if
-- these lack them.
SELECT u.request_key, m.text, m.thinking, m.session_id IS NOT u.session_id AS is_elsewhere, m.source_file_id, m.byte_start
FROM usage u
JOIN _usage_lines l ON l.request_key = u.request_key AND l.part = 0
JOIN messages m ON m.id = l.message_id
WHERE m.session_id IS u.session_id AND m.agent_id IS u.agent_id
  OR m.is_sidechain = u.is_sidechain AND NOT EXISTS (
    SELECT 1 FROM _usage_lines o JOIN messages n ON n.id = o.message_id
    JOIN _message_lines nl ON nl.message_id = n.id JOIN _message_lines ml ON ml.message_id = m.id
    WHERE o.request_key = u.request_key AND o.part = 0 AND n.session_id IS u.session_id AND n.agent_id IS u.agent_id AND nl.block_keys = ml.block_keys)
