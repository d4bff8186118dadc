-- What did each billed request cost, in whole numbers of 10^-12 USD?
--   id: the row of usage
--   request_key: the key that makes it one request
--   session_id: its session
--   agent_id: its agent; NULL for the main thread
--   turn_id: the human request it belongs to
--   model: the model, as transcripts write it
--   priced_model: the model whose prices apply; NULL without a price
--   price_id: the row of prices; NULL without a price
--   timestamp: when it happened
--   quarter: the quarter of an hour in which it began, such as 2026-08-24T22:3; an index has requests in the order of quarter and model
--   input_tokens: input tokens that were neither written to the cache nor read from it
--   output_tokens: output tokens; a lower bound unless output_is_final is 1
--   cache_write_5m_tokens: tokens written to the 5-minute cache
--   cache_write_1h_tokens: tokens written to the 1-hour cache
--   cache_read_tokens: tokens read from the cache
--   prompt_tokens: the size of the largest single call in the request
--   web_search_requests: web searches
--   speed: standard or fast
--   inference_geo: the region where it ran
--   multiplier: the factor for fast mode and region
--   cost_reported_usd: costUSD, which old versions wrote
--   lines: distinct entries that report the request
--   is_repeated: 1 if lines of several sessions or agents report it
--   output_is_final: 1 if the output count is final
--   is_sidechain: 1 for an agent's request
--   cost: in 10^-12 USD; NULL without a price
--   cost_uncached: the cost if every token had been plain input
SELECT u.id, u.request_key, u.session_id, u.agent_id, u.turn_id, u.model, r.priced_model, r.price_id, u.timestamp,
  substr(u.timestamp, 1, 14) || (substr(u.timestamp, 15, 2) / 15) AS quarter,
  u.input_tokens, u.output_tokens, u.cache_write_5m_tokens, u.cache_write_1h_tokens, u.cache_read_tokens,
  u.prompt_tokens, u.web_search_requests, u.speed, u.inference_geo,
  1.0 * iif(u.speed = 'fast', r.fast, 1) * iif(u.inference_geo = 'us', r.us, 1) / (iif(u.speed = 'fast', r.fast_by, 1) * iif(u.inference_geo = 'us', r.us_by, 1)) AS multiplier,
  u.cost_reported_usd, u.lines, u.is_repeated, u.output_is_final, u.is_sidechain,
  CASE WHEN u.speed = 'fast' OR u.inference_geo = 'us' OR u.web_search_requests > 0 THEN
    (u.input_tokens * r.input + u.output_tokens * r.output + u.cache_write_5m_tokens * r.cache_write_5m
      + u.cache_write_1h_tokens * r.cache_write_1h + u.cache_read_tokens * r.cache_read)
    * iif(u.speed = 'fast', r.fast, 1) * iif(u.inference_geo = 'us', r.us, 1)
    / (iif(u.speed = 'fast', r.fast_by, 1) * iif(u.inference_geo = 'us', r.us_by, 1))
    + u.web_search_requests * iif(u.web_search_requests < 10000, 10000000000, 1e10) -- a real number, so that absurd counts do not overflow sums
  ELSE -- most requests; this is a tenth quicker
    u.input_tokens * r.input + u.output_tokens * r.output + u.cache_write_5m_tokens * r.cache_write_5m
    + u.cache_write_1h_tokens * r.cache_write_1h + u.cache_read_tokens * r.cache_read
  END AS cost,
  ((u.input_tokens + u.cache_write_5m_tokens + u.cache_write_1h_tokens + u.cache_read_tokens) * r.input + u.output_tokens * r.output)
  * iif(u.speed = 'fast', r.fast, 1) * iif(u.inference_geo = 'us', r.us, 1)
  / (iif(u.speed = 'fast', r.fast_by, 1) * iif(u.inference_geo = 'us', r.us_by, 1))
  + u.web_search_requests * iif(u.web_search_requests < 10000, 10000000000, 1e10) AS cost_uncached
FROM usage u
LEFT JOIN _rates r ON r.model = u.model
  AND (r.is_whole -- most rates; this saves four comparisons a request
    OR r.from_at <= coalesce(u.timestamp, '') AND coalesce(u.timestamp, '') < r.until_at
    AND r.above < u.prompt_tokens AND u.prompt_tokens <= r.up_to)
