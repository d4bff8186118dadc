-- What was each agent asked, and what did it answer?
--   id: the row of agents
--   call_id: the row of tool_uses for the call that started it
--   prompt: the whole task, from the call, else from the first line of the agent
--   answer: the last thing that the agent said, else what the call returned
-- Other API providers use the id of a call several times. If an agent works in the background, its call returns only
-- that it was launched.
SELECT a.id, k.id AS call_id,
  coalesce(CASE WHEN json_valid(k.input) THEN json_extract(k.input, '$.prompt') END, (
    SELECT m.text FROM messages m
    WHERE m.session_id = a.session_id AND m.agent_id = a.agent_id AND m.kind = 'agent_prompt'
    ORDER BY m.timestamp LIMIT 1
  )) AS prompt,
  coalesce((
    SELECT m.text FROM messages m
    WHERE m.session_id = a.session_id AND m.agent_id = a.agent_id AND m.kind = 'assistant' AND trim(m.text, char(9, 10, 13, 32)) <> ''
    ORDER BY m.timestamp DESC, m.source_file_id DESC, m.byte_start DESC LIMIT 1
  ), CASE WHEN a.status IN ('completed', 'failed') THEN k.result_text END) AS answer
FROM agents a
LEFT JOIN tool_uses k ON k.id = (
  SELECT u.id FROM tool_uses u
  WHERE u.tool_use_id = a.tool_use_id AND u.session_id = a.session_id
    AND (substr(u.tool_use_id, 1, 6) = 'toolu_' OR u.turn_id IS a.turn_id AND u.name = 'Agent')
  LIMIT 1
)
