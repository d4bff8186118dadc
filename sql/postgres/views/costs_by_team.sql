-- What does each team use, and what does it cost?
--   team: the team, as the machine's config says
--   people: people who used it
--   last_used_at: time of the last request
--   sessions: sessions with requests
--   requests: billed requests
--   input_tokens: input tokens that were neither written to the cache nor read from it
--   output_tokens: output tokens, thinking included
--   cache_write_tokens: tokens written to the cache
--   cache_read_tokens: tokens read from the cache
--   total_tokens: input, output, cache writes and cache reads together
--   cost_usd: cost in USD of the requests that have a price; NULL if none has one
--   requests_unpriced: requests whose model has no price; cost_usd does not include them
--   requests_not_final: requests whose output count is only a lower bound
SELECT team,
  count(DISTINCT person) AS people,
  max(timestamp) AS last_used_at,
  count(DISTINCT session_id) AS sessions,
  count(*) AS requests,
  sum(input_tokens) AS input_tokens,
  sum(output_tokens) AS output_tokens,
  sum(cache_write_tokens) AS cache_write_tokens,
  sum(cache_read_tokens) AS cache_read_tokens,
  sum(total_tokens) AS total_tokens,
  (sum(cost) / 1e12)::float8 AS cost_usd,
  count(*) - count(priced_model) AS requests_unpriced,
  count(*) - sum(output_is_final) AS requests_not_final
FROM ctxdb.requests
GROUP BY team
ORDER BY cost_usd DESC NULLS LAST, team
