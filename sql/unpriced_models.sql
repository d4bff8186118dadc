-- Which models have no price, and how much were they used?
--   model (text): the model, as transcripts write it
--   looked_for (text): the names under which a price was searched
--   requests (number): billed requests
--   input_tokens (tokens): input tokens that were neither written to the cache nor read from it
--   output_tokens (tokens): output tokens, thinking included; a lower bound if requests_not_final is above 0
--   cache_write_5m_tokens (tokens, detail): tokens written to the 5-minute cache
--   cache_write_1h_tokens (tokens, detail): tokens written to the 1-hour cache
--   cache_read_tokens (tokens): tokens read from the cache
--   total_tokens (tokens, always): input, output, cache writes and cache reads together
--   web_search_requests (number, detail): web searches; each is billed separately
--   requests_unpriced (number, detail): the same as requests, because none of them has a price
--   requests_not_final (number, detail): billed requests whose output count is only a lower bound, because the transcript never got the final count
--   first_used_at (time, detail): time of the first request
--   last_used_at (time): time of the last request
-- filters: since=_costs.timestamp project=_costs.session_id session=_costs.session_id model=_costs.model
-- example: ctxdb query unpriced_models
SELECT model, (SELECT group_concat(name, ', ') FROM (SELECT name FROM _model_names n WHERE n.model = c.model ORDER BY place)) AS looked_for,
  count(*) AS requests, sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens,
  sum(cache_write_5m_tokens) AS cache_write_5m_tokens, sum(cache_write_1h_tokens) AS cache_write_1h_tokens,
  sum(cache_read_tokens) AS cache_read_tokens,
  sum(input_tokens + output_tokens + cache_write_5m_tokens + cache_write_1h_tokens + cache_read_tokens) AS total_tokens,
  sum(web_search_requests) AS web_search_requests, count(*) AS requests_unpriced,
  count(*) - sum(output_is_final) AS requests_not_final, min(timestamp) AS first_used_at, max(timestamp) AS last_used_at
FROM _costs c
WHERE price_id IS NULL
GROUP BY model
ORDER BY requests DESC, model
