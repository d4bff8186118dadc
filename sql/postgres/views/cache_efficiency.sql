-- How much is read from the cache, and what does caching save, by repository and model?
--   repository: owner/name of the repository, or the name of its folder; a hash at level usage
--   model: the model, as transcripts write it
--   requests: billed requests
--   read_from_cache: share of the prompt that was read from the cache
--   cost_usd: cost in USD
--   cost_uncached_usd: the cost if every token had been plain input
--   saved_usd: what caching saved
SELECT repository, model, count(*) AS requests,
  round(sum(cache_read_tokens) * 1.0 / nullif(sum(input_tokens + cache_write_tokens + cache_read_tokens), 0), 4) AS read_from_cache,
  (sum(cost) / 1e12)::float8 AS cost_usd, (sum(cost_uncached) / 1e12)::float8 AS cost_uncached_usd,
  ((sum(cost_uncached) - sum(cost)) / 1e12)::float8 AS saved_usd
FROM ctxdb.requests
GROUP BY repository, model
ORDER BY saved_usd DESC NULLS LAST, repository, model
