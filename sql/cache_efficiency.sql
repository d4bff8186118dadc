-- How much of the prompts came from the cache, and what did that save, by project and model?
--   project (text): name of the project
--   path (path, about): its folder
--   model (text): model as the transcripts name it
--   requests (number): billed requests
--   input_tokens (tokens): input that was neither written to nor read from the cache
--   cache_write_5m_tokens (tokens, detail): written to the 5-minute cache
--   cache_write_1h_tokens (tokens, detail): written to the 1-hour cache
--   cache_read_tokens (tokens): read from the cache
--   read_from_cache (share, always): share of the prompts that was read from the cache, 0 to 1
--   cost_usd (money, always): what the requests with a price cost; NULL when none has one
--   cost_uncached_usd (money): what the same requests would have cost with every token as plain input
--   saved_usd (money, always): the difference; below 0 where writing to the cache did not pay
--   requests_unpriced (number, detail): requests whose model has no price: not in cost_usd
--   requests_not_final (number, detail): requests whose output count is a lower bound: the transcript never got the final one
-- filters: since=_costs.timestamp project=_costs.session_id session=_costs.session_id model=_costs.model
-- example: ctxdb query cache_efficiency --since 30d
SELECT p.name AS project, p.path, model, sum(requests) AS requests, sum(input_tokens) AS input_tokens,
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
GROUP BY p.id, model
ORDER BY saved_usd DESC, p.path, model
