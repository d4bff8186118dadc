-- What was used and what did it cost, by session?
--   session_id (id, always): the session
--   title (text, about): its title
--   project (text): name of its project
--   started_at (time): time of its first message
--   last_used_at (time): time of its last request; newest first
--   requests (number): billed requests
--   input_tokens (tokens): input tokens that were neither written to the cache nor read from it
--   output_tokens (tokens): output tokens, thinking included; a lower bound if requests_not_final is above 0
--   cache_write_5m_tokens (tokens, detail): tokens written to the 5-minute cache
--   cache_write_1h_tokens (tokens, detail): tokens written to the 1-hour cache
--   cache_read_tokens (tokens): tokens read from the cache
--   total_tokens (tokens, always): input, output, cache writes and cache reads together
--   web_search_requests (number, detail): web searches; each is billed separately
--   cost_usd (money, always): cost in USD, subagents included; NULL if no request has a price
--   cost_own_usd (money): cost in USD without subagents
--   requests_unpriced (number, detail): billed requests whose model has no price; cost_usd does not include them
--   requests_not_final (number, detail): billed requests whose output count is only a lower bound, because the transcript never got the final count
-- filters: since=_costs.timestamp project=_costs.session_id session=_costs.session_id model=_costs.model
-- total: requests input_tokens output_tokens cache_write_5m_tokens cache_write_1h_tokens cache_read_tokens total_tokens web_search_requests cost_usd requests_unpriced requests_not_final cost_own_usd
-- example: ctxdb query usage_by_session --since 7d
SELECT u.session_id, coalesce(s.title, '(untitled)') AS title, p.name AS project, s.started_at, u.last_used_at,
  requests, input_tokens, output_tokens, cache_write_5m_tokens, cache_write_1h_tokens, cache_read_tokens,
  input_tokens + output_tokens + cache_write_5m_tokens + cache_write_1h_tokens + cache_read_tokens AS total_tokens,
  web_search_requests, cost / 1e12 AS cost_usd,
  CASE WHEN requests_own = 0 THEN 0.0 WHEN priced_own > 0 THEN (cost - coalesce(cost_of_agents, 0)) / 1e12 END AS cost_own_usd,
  requests_unpriced, requests_not_final
FROM (
  SELECT session_id, count(*) AS requests, sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens,
    sum(cache_write_5m_tokens) AS cache_write_5m_tokens, sum(cache_write_1h_tokens) AS cache_write_1h_tokens,
    sum(cache_read_tokens) AS cache_read_tokens, sum(web_search_requests) AS web_search_requests,
    sum(cost) AS cost, count(*) - count(price_id) AS requests_unpriced, count(*) - sum(output_is_final) AS requests_not_final,
    max(timestamp) AS last_used_at, sum(cost) FILTER (WHERE agent_id IS NOT NULL) AS cost_of_agents,
    count(*) FILTER (WHERE agent_id IS NULL) AS requests_own, count(price_id) FILTER (WHERE agent_id IS NULL) AS priced_own
  FROM _costs GROUP BY session_id
) u
LEFT JOIN sessions s ON s.id = u.session_id
LEFT JOIN projects p ON p.id = s.project_id
ORDER BY u.last_used_at DESC, u.session_id
