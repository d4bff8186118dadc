-- What was used and what did it cost, by ISO week and model?
--   week (text): the ISO week, such as 2026-W34; newest first
--   week_start (text, detail): the Monday of that week, a local day
--   model (text): the model, as transcripts write it
--   requests (number): billed requests
--   input_tokens (tokens): input tokens that were neither written to the cache nor read from it
--   output_tokens (tokens): output tokens, thinking included; a lower bound if requests_not_final is above 0
--   cache_write_5m_tokens (tokens, detail): tokens written to the 5-minute cache
--   cache_write_1h_tokens (tokens, detail): tokens written to the 1-hour cache
--   cache_read_tokens (tokens): tokens read from the cache
--   total_tokens (tokens, always): input, output, cache writes and cache reads together
--   web_search_requests (number, detail): web searches; each is billed separately
--   cost_usd (money, always): cost in USD of the requests that have a price; NULL if none has one
--   requests_unpriced (number, detail): billed requests whose model has no price; cost_usd does not include them
--   requests_not_final (number, detail): billed requests whose output count is only a lower bound, because the transcript never got the final count
-- filters: since=_costs.timestamp project=_costs.session_id session=_costs.session_id model=_costs.model
-- total: requests input_tokens output_tokens cache_write_5m_tokens cache_write_1h_tokens cache_read_tokens total_tokens web_search_requests cost_usd requests_unpriced requests_not_final
-- example: ctxdb query weekly_usage --since 60d
SELECT strftime('%Y', day) || printf('-W%02d', (strftime('%j', day) + 6) / 7) AS week, date(day, '-3 days') AS week_start,
  model, sum(requests) AS requests, sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens,
  sum(cache_write_5m_tokens) AS cache_write_5m_tokens, sum(cache_write_1h_tokens) AS cache_write_1h_tokens,
  sum(cache_read_tokens) AS cache_read_tokens,
  sum(input_tokens + output_tokens + cache_write_5m_tokens + cache_write_1h_tokens + cache_read_tokens) AS total_tokens,
  sum(web_search_requests) AS web_search_requests, sum(cost) / 1e12 AS cost_usd,
  sum(requests_unpriced) AS requests_unpriced, sum(requests_not_final) AS requests_not_final
FROM (
  SELECT date(first_at, 'localtime', '-3 days', 'weekday 4') AS day, * -- the Thursday of the week, whose year is the year of the week
  FROM (
    SELECT min(timestamp) AS first_at, model, count(*) AS requests, sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens,
      sum(cache_write_5m_tokens) AS cache_write_5m_tokens, sum(cache_write_1h_tokens) AS cache_write_1h_tokens,
      sum(cache_read_tokens) AS cache_read_tokens, sum(web_search_requests) AS web_search_requests,
      sum(cost) AS cost, count(*) - count(price_id) AS requests_unpriced, count(*) - sum(output_is_final) AS requests_not_final
    FROM _costs GROUP BY quarter, model
  )
)
GROUP BY day, model
ORDER BY day DESC, sum(cost) DESC, model
