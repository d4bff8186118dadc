-- What did agents do: type, task, parent, tokens, cost, time and status of each?
--   started_at (time): when the agent began, or when it was called if its messages are missing; newest first
--   project (text): name of the project
--   kind (text): task, sidechain, workflow or teammate; Claude Code itself starts compact, prompt_suggestion and warmup
--   agent_type (text): Explore, general-purpose, ...
--   task (text, about): what the agent was asked to do, in a few words
--   status (text): completed, failed, running, launched or unknown
--   tools (number): its tool calls; NULL, like tokens and cost, if its messages are missing
--   errors (number): tool calls that failed
--   requests (number): its billed requests, as far as they are known; agents that it started have their own rows
--   requests_unpriced (number, detail): requests among these without a price; cost_usd does not include them
--   requests_not_final (number, detail): requests among these whose output count is only a lower bound
--   total_tokens (tokens, always): input, output, cache writes and cache reads together
--   output_tokens (tokens): output tokens
--   cost_usd (money, always): cost in USD; NULL if no request has a price, or if its messages are missing
--   seconds (seconds): from its first to its last message; if these are missing, the duration of the call
--   model (text): the model it ran on
--   prompt (text, detail): the whole task that the agent was given
--   answer (text, outcome): the last thing that the agent said, else what the call returned; for an agent in the background, the text of the notice that it has ended, else what TaskOutput returned, else the last thing that it said
--   request (text, detail): the human request that led to it
--   depth (number): 1 if the main thread started it, 2 if such an agent did, and so on
--   parent_agent_id (id, detail): the agent that started it; NULL for the main thread
--   agent_id (id, detail): the agent
--   session_id (id, always): the session
--   turn_id (id, detail): the human request
--   tool_use_id (id, detail): the call that started it
-- filters: since=started_at project=session_id session=session_id model=model
-- period: 30d
-- example: ctxdb query subagent_runs --since 30d --sort -cost_usd
SELECT a.began_at AS started_at, p.name AS project, a.kind, a.agent_type, a.description AS task, a.status,
  CASE WHEN a.started_at IS NOT NULL THEN
    (SELECT count(*) FROM tool_uses u WHERE u.session_id = a.session_id AND u.agent_id = a.agent_id)
  END AS tools,
  CASE WHEN a.started_at IS NOT NULL THEN
    (SELECT count(*) FROM tool_uses u WHERE u.session_id = a.session_id AND u.agent_id = a.agent_id AND u.status = 'error' AND u.status <> 'ok')
  END AS errors,
  coalesce(c.requests, 0) AS requests, coalesce(c.requests_unpriced, 0) AS requests_unpriced,
  coalesce(c.requests_not_final, 0) AS requests_not_final,
  CASE WHEN c.requests IS NULL AND a.started_at IS NOT NULL THEN 0 ELSE c.total_tokens END AS total_tokens,
  CASE WHEN c.requests IS NULL AND a.started_at IS NOT NULL THEN 0 ELSE c.output_tokens END AS output_tokens,
  CASE WHEN c.requests IS NULL AND a.started_at IS NOT NULL THEN 0.0 ELSE c.cost / 1e12 END AS cost_usd,
  coalesce(round((julianday(a.ended_at) - julianday(a.started_at)) * 86400, 1),
    CASE WHEN a.status IN ('completed', 'failed') THEN round(a.duration_ms / 1000.0, 1) END) AS seconds,
  a.model, (SELECT r.prompt FROM _agent_texts r WHERE r.id = a.id) AS prompt, (SELECT r.answer FROM _agent_texts r WHERE r.id = a.id) AS answer,
  t.prompt AS request, a.depth, a.parent_agent_id, a.agent_id, a.session_id, a.turn_id, a.tool_use_id
FROM (
  SELECT a.*, coalesce(a.started_at, k.started_at) AS began_at, k.duration_ms
  FROM agents a
  LEFT JOIN tool_uses k ON k.id = (SELECT c.call_id FROM _agent_texts c WHERE c.id = a.id)
  ORDER BY began_at DESC, a.id DESC
  LIMIT -1 -- with it, SQLite sorts these rows before it reads the long texts of prompts and answers
) a
LEFT JOIN sessions s ON s.id = a.session_id
LEFT JOIN projects p ON p.id = s.project_id
LEFT JOIN turns t ON t.id = a.turn_id
LEFT JOIN (
  SELECT session_id, agent_id, count(*) AS requests, count(*) - count(price_id) AS requests_unpriced,
    count(*) - sum(output_is_final) AS requests_not_final,
    sum(input_tokens + output_tokens + cache_write_5m_tokens + cache_write_1h_tokens + cache_read_tokens) AS total_tokens,
    sum(output_tokens) AS output_tokens, sum(cost) AS cost
  FROM _costs
  WHERE agent_id IS NOT NULL
  GROUP BY session_id, agent_id
) c ON c.session_id = a.session_id AND c.agent_id = a.agent_id
