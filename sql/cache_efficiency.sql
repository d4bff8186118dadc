-- How much of the prompts came from the cache, and what did that save, by project and model?
--   project (text): name of the project
--   repo_path (path, about): its folder; worktrees are included
--   model (text): the model, as transcripts write it
--   requests (number): billed requests
--   input_tokens (tokens): input tokens that were neither written to the cache nor read from it
--   cache_write_5m_tokens (tokens, detail): tokens written to the 5-minute cache
--   cache_write_1h_tokens (tokens, detail): tokens written to the 1-hour cache
--   cache_read_tokens (tokens): tokens read from the cache
--   read_from_cache (share, always): the share of the prompt tokens that were read from the cache, 0 to 1
--   cost_usd (money, always): cost in USD of the requests that have a price; NULL if none has one
--   cost_uncached_usd (money): the cost of the same requests if every token had been plain input
--   saved_usd (money, always): cost_uncached_usd minus cost_usd; negative if writing to the cache cost more than it saved
--   requests_unpriced (number, detail): billed requests whose model has no price; cost_usd does not include them
--   requests_not_final (number, detail): billed requests whose output count is only a lower bound, because the transcript never got the final count
-- filters: since=_costs.timestamp project=_costs.session_id session=_costs.session_id model=_costs.model
-- total: requests input_tokens cache_write_5m_tokens cache_write_1h_tokens cache_read_tokens cost_usd cost_uncached_usd saved_usd requests_unpriced requests_not_final
-- example: ctxdb query cache_efficiency --since 30d
SELECT n.project, p.repo_path, model, sum(requests) AS requests, sum(input_tokens) AS input_tokens,
  sum(cache_write_5m_tokens) AS cache_write_5m_tokens, sum(cache_write_1h_tokens) AS cache_write_1h_tokens,
  sum(cache_read_tokens) AS cache_read_tokens,
  round(sum(cache_read_tokens) * 1.0 / nullif(sum(input_tokens + cache_write_5m_tokens + cache_write_1h_tokens + cache_read_tokens), 0), 4) AS read_from_cache,
  sum(cost) / 1e12 AS cost_usd, sum(cost_uncached) / 1e12 AS cost_uncached_usd, (sum(cost_uncached) - sum(cost)) / 1e12 AS saved_usd,
  sum(requests_unpriced) AS requests_unpriced, sum(requests_not_final) AS requests_not_final
FROM (
  SELECT session_id, model, count(*) AS requests, sum(input_tokens) AS input_tokens,
    sum(cache_write_5m_tokens) AS cache_write_5m_tokens, sum(cache_write_1h_tokens) AS cache_write_1h_tokens,
    sum(cache_read_tokens) AS cache_read_tokens, sum(cost) AS cost, sum(cost_uncached) AS cost_uncached,
    count(*) - count(price_id) AS requests_unpriced, count(*) - sum(output_is_final) AS requests_not_final
  FROM _costs GROUP BY session_id, model
) u
LEFT JOIN sessions s ON s.id = u.session_id
LEFT JOIN projects p ON p.id = s.project_id
LEFT JOIN _project_names n ON n.repo_path = p.repo_path
GROUP BY p.repo_path, model
ORDER BY saved_usd DESC, p.repo_path, model
