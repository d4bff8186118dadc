-- What was used and what did it cost, by day, team, person, repository and model?
--   day: the day, in the time zone of your connection (SET TIME ZONE)
--   team: the team, as the machine's config says
--   person: the person, as the machine's config says; perhaps a hash
--   repository: owner/name of the repository, or the name of its folder; a hash at level usage
--   model: the model, as transcripts write it
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
SELECT day, team, person, repository, model,
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
GROUP BY day, team, person, repository, model
ORDER BY day DESC, cost_usd DESC NULLS LAST, person, repository, model
