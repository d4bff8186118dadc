-- Which lines tell the reply to each request, in which order?
--   request_key: the request
--   text: what the line says
--   thinking: what it thinks
--   is_elsewhere: 1 for a line of another session, which comes last
--   source_file_id: the file it stands in
--   byte_start: where in it
-- The lines of a request may stand in several sessions, and in sidechains that repeat the main thread, under new
-- uuids. The reply is told by the thread that the request is of; another session adds only what that has not.
SELECT u.request_key, m.text, m.thinking, m.session_id IS NOT u.session_id AS is_elsewhere, m.source_file_id, m.byte_start
FROM usage u
JOIN _usage_lines l ON l.request_key = u.request_key AND l.part = 0
JOIN messages m ON m.id = l.message_id
WHERE m.session_id IS u.session_id AND m.agent_id IS u.agent_id
  OR m.is_sidechain = u.is_sidechain AND NOT EXISTS (
    SELECT 1 FROM _usage_lines o JOIN messages n ON n.id = o.message_id
    JOIN _message_lines nl ON nl.message_id = n.id JOIN _message_lines ml ON ml.message_id = m.id
    WHERE o.request_key = u.request_key AND o.part = 0 AND n.session_id IS u.session_id AND n.agent_id IS u.agent_id AND nl.block_keys = ml.block_keys)
