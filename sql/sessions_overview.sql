-- What are the sessions: project, title, turns, tools, errors, files changed, tokens, cost, duration and models of each?
--   started_at (time): first message; the newest session is first
--   project (text): name of the project
--   title (text, about): the title of the session
--   turns (number): human requests; with --since or --until, this and all other counts are of that period, and all other columns are of the whole session
--   tools (number): tool calls, including those of subagents
--   errors (number): tool calls that failed
--   files_changed (number): files that were created, written, edited or deleted
--   lines_added (number): lines added to these files
--   lines_removed (number): lines removed
--   subagents (number): agents that the whole session started; compaction runs, warm-ups and suggestions do not count
--   requests (number): billed requests, including those of subagents; with --model, requests, tokens and costs are of that model
--   requests_unpriced (number, detail): requests among these without a price; the costs do not include them
--   requests_not_final (number, detail): requests among these whose output count is only a lower bound
--   total_tokens (tokens, always): input, output, cache writes and cache reads together
--   output_tokens (tokens): output tokens
--   cost_usd (money, always): cost in USD, subagents included; NULL if no request has a price
--   cost_own_usd (money): cost in USD without subagents; NULL if the session has requests and none of them has a price
--   models (text): the models that answered
--   active_seconds (seconds): how long the agent worked on these human requests
--   estimated_seconds (seconds, detail): how much of active_seconds is estimated, because the client did not report the time
--   seconds (seconds, detail): from the first to the last message, waiting included
--   ended_at (time): last message
--   git_branch (text): the last branch
--   version (text): the last version of Claude Code
--   entrypoint (text): the program that was used: cli, sdk-cli, claude-desktop, ...
--   is_automated (number): 1 if a program ran it, 0 if a person typed, NULL if nothing says which; --human leaves out those with 1
--   relation (text): resume, fork, clear or plan, if it continues another session
--   parent_session_id (id, detail): the session that it continues
--   source_deleted_at (time): when its transcript was found to be missing
--   session_id (id, always): the session; claude --resume takes it
--   project_id (id, detail): the project
-- one row per: sessions ORDER BY started_at DESC, id
-- filters: since=sessions.ended_at,turns.started_at,tool_uses.started_at,files_touched.timestamp,usage.timestamp,_costs.timestamp until=sessions.started_at,turns.started_at,tool_uses.started_at,files_touched.timestamp,usage.timestamp,_costs.timestamp project=sessions.project_id human=sessions.id session=sessions.id model=_costs.model,usage.model,models
-- example: ctxdb query sessions_overview --since 7d --sort -cost_usd
SELECT s.started_at, p.name AS project, coalesce(s.title, '(untitled)') AS title,
  (SELECT count(*) FROM turns t WHERE t.session_id = s.id) AS turns,
  (SELECT count(*) FROM tool_uses u WHERE u.session_id = s.id) AS tools,
  (SELECT count(*) FROM tool_uses u WHERE u.session_id = s.id AND u.status = 'error') AS errors,
  coalesce(f.files_changed, 0) AS files_changed, coalesce(f.lines_added, 0) AS lines_added, coalesce(f.lines_removed, 0) AS lines_removed,
  (
    SELECT count(*) FROM agents a WHERE a.session_id = s.id AND a.kind NOT IN ('compact', 'prompt_suggestion', 'warmup')
  ) AS subagents,
  coalesce(c.requests, 0) AS requests, coalesce(c.requests_unpriced, 0) AS requests_unpriced,
  coalesce(c.requests_not_final, 0) AS requests_not_final, coalesce(c.total_tokens, 0) AS total_tokens, coalesce(c.output_tokens, 0) AS output_tokens,
  CASE WHEN c.session_id IS NULL THEN 0.0 ELSE c.cost / 1e12 END AS cost_usd,
  CASE WHEN c.session_id IS NULL OR c.requests = c.requests_of_agents THEN 0.0
    WHEN c.requests - c.requests_unpriced > c.priced_of_agents THEN (c.cost - coalesce(c.cost_of_agents, 0)) / 1e12
  END AS cost_own_usd,
  CASE WHEN c.first_model = c.last_model THEN c.first_model
    ELSE (SELECT group_concat(model, ', ') FROM (SELECT DISTINCT u.model FROM usage u WHERE u.session_id = s.id ORDER BY u.model)) END AS models,
  (SELECT round(total(t.active_ms) / 1000.0, 1) FROM turns t WHERE t.session_id = s.id) AS active_seconds,
  (SELECT round(total(t.active_ms) / 1000.0, 1) FROM turns t WHERE t.session_id = s.id AND t.agent_ms IS NULL) AS estimated_seconds,
  round((julianday(s.ended_at) - julianday(s.started_at)) * 86400, 1) AS seconds, s.ended_at, s.git_branch, s.version, s.entrypoint, s.is_automated,
  s.relation, s.parent_session_id, s.source_deleted_at, s.id AS session_id, s.project_id
FROM sessions s
LEFT JOIN projects p ON p.id = s.project_id
LEFT JOIN (
  SELECT session_id, count(DISTINCT path) AS files_changed, sum(lines_added) AS lines_added, sum(lines_removed) AS lines_removed
  FROM files_touched
  WHERE succeeded = 1 AND operation IN ('create', 'write', 'edit', 'notebook_edit', 'delete') AND session_id IN (SELECT id FROM sessions)
  GROUP BY session_id
) f ON f.session_id = s.id
LEFT JOIN (
  SELECT session_id, count(*) AS requests, count(*) - count(price_id) AS requests_unpriced, count(*) - sum(output_is_final) AS requests_not_final,
    sum(input_tokens + output_tokens + cache_write_5m_tokens + cache_write_1h_tokens + cache_read_tokens) AS total_tokens,
    sum(output_tokens) AS output_tokens, sum(cost) AS cost, sum(cost) FILTER (WHERE agent_id IS NOT NULL) AS cost_of_agents,
    count(*) FILTER (WHERE agent_id IS NOT NULL) AS requests_of_agents, count(price_id) FILTER (WHERE agent_id IS NOT NULL) AS priced_of_agents,
    min(model) AS first_model, max(model) AS last_model
  FROM _costs
  WHERE session_id IN (SELECT id FROM sessions) -- so that with a period, only the sessions of that period are read
  GROUP BY session_id
) c ON c.session_id = s.id
ORDER BY s.started_at DESC, s.id
