-- What was each agent asked, and what did it answer?
--   id: the row of agents
--   call_id: the row of tool_uses for the call that started it
--   prompt: the whole task, from the call, else from the first line of the agent
--   answer: the last thing that the agent said, else what the call returned; for an agent in the background, the text of the notice that it has ended, else what TaskOutput returned, else the last thing that it said
-- Other API providers use the id of a call several times. If an agent works in the background, its call returns only
-- that it was launched. A call that returns the answer adds lines of the client to it, so the agent's own words go first.
SELECT a.id, k.id AS call_id,
  coalesce(CASE WHEN json_valid(k.input) THEN json_extract(k.input, '$.prompt') END, (
    SELECT m.text FROM messages m
    WHERE m.session_id = a.session_id AND m.agent_id = a.agent_id AND m.kind = 'agent_prompt'
    ORDER BY m.timestamp LIMIT 1
  )) AS prompt,
  coalesce(
    CASE WHEN a.in_background THEN coalesce((
      SELECT substr(result, 1, instr(result || '</result>', '</result>') - 1) FROM (
        SELECT substr(notice, instr(notice, '<result>') + 8) AS result, at FROM (
          SELECT substr(begun, 1, instr(begun || '-notification>', '-notification>') - 1) AS notice, at FROM (
            SELECT substr(text, instr(text, '-id>' || a.agent_id || '</')) AS begun, at FROM (
              SELECT f.at, coalesce((SELECT m.text FROM messages m WHERE m.id = f.message_id), (
                  SELECT json_extract(e.data, '$.content') FROM events e
                  WHERE e.type = 'queue-operation' AND e.timestamp = f.at AND +e.session_id = f.session_id
                    AND instr(e.data, '-id>' || a.agent_id || '</') AND json_valid(e.data)
                  LIMIT 1
                )) AS text
              FROM _agent_facts f
              WHERE f.session_id = a.session_id AND f.agent_id = a.agent_id AND f.source = 'notice' AND f.status <> 'launched'
              LIMIT -1 -- with it, SQLite looks up each text once
            )
          )
        )
        WHERE instr(notice, '<result>')
      )
      ORDER BY at DESC LIMIT 1
    ), (
      SELECT substr(result, 1, instr(result || char(10) || '</output>', char(10) || '</output>') - 1) FROM (
        SELECT substr(u.result_text, instr(u.result_text, '--- RESULT ---') + 15) AS result, u.started_at FROM tool_uses u
        WHERE u.session_id = a.session_id AND u.name = 'TaskOutput' AND u.target = a.agent_id AND instr(u.result_text, '--- RESULT ---')
      )
      ORDER BY started_at DESC LIMIT 1
    )) END,
    (
      SELECT m.text FROM messages m
      WHERE m.session_id = a.session_id AND m.agent_id = a.agent_id AND m.kind = 'assistant' AND trim(m.text, char(9, 10, 13, 32)) <> ''
      ORDER BY m.timestamp DESC, m.source_file_id DESC, m.byte_start DESC LIMIT 1
    ),
    CASE WHEN a.status IN ('completed', 'failed') AND NOT a.in_background THEN k.result_text END
  ) AS answer
FROM (
  SELECT a.id, a.session_id, a.agent_id, a.tool_use_id, a.turn_id, a.status, EXISTS (
      SELECT 1 FROM _agent_facts f
      WHERE f.session_id = a.session_id AND f.agent_id = a.agent_id AND f.source IN ('result', 'notice')
        AND f.tool_use_id = a.tool_use_id AND f.status = 'launched'
    ) AS in_background
  FROM agents a
) a
LEFT JOIN tool_uses k ON k.id = (
  SELECT u.id FROM tool_uses u
  WHERE u.tool_use_id = a.tool_use_id AND u.session_id = a.session_id
    AND (substr(u.tool_use_id, 1, 6) = 'toolu_' OR u.turn_id IS a.turn_id AND u.name = 'Agent')
  LIMIT 1
)
