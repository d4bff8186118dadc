-- What did each billed request cost, in whole numbers of 10^-12 USD?
--   id: the row of usage
--   request_key: what makes it one request
--   session_id: its session
--   agent_id: its agent, NULL for the main thread
--   turn_id: the human request it belongs to
--   model: model as transcripts write it
--   priced_model: model whose prices hold for it, NULL without a price
--   price_id: the row of prices, NULL without a price
--   timestamp: when
--   input_tokens: input that was neither written to nor read from the cache
--   output_tokens: output, a lower bound unless output_is_final
--   cache_write_5m_tokens: written to the 5-minute cache
--   cache_write_1h_tokens: written to the 1-hour cache
--   cache_read_tokens: read from the cache
--   web_search_requests: web searches
--   output_is_final: 1 when the output count is final
--   is_sidechain: 1 for an agent's request
--   cost: 10^-12 USD, NULL without a price
SELECT u.id, u.request_key, u.session_id, u.agent_id, u.turn_id, u.model, r.priced_model, r.price_id, u.timestamp,
  u.input_tokens, u.output_tokens, u.cache_write_5m_tokens, u.cache_write_1h_tokens, u.cache_read_tokens,
  u.web_search_requests, u.output_is_final, u.is_sidechain,
  (u.input_tokens * r.input + u.output_tokens * r.output + u.cache_write_5m_tokens * r.cache_write_5m
    + u.cache_write_1h_tokens * r.cache_write_1h + u.cache_read_tokens * r.cache_read)
  * CASE WHEN u.speed = 'fast' THEN r.fast ELSE 1 END * CASE WHEN u.inference_geo = 'us' THEN r.us ELSE 1 END
  / (CASE WHEN u.speed = 'fast' THEN r.fast_by ELSE 1 END * CASE WHEN u.inference_geo = 'us' THEN r.us_by ELSE 1 END)
  + u.web_search_requests * 10000000000 AS cost
FROM usage u
LEFT JOIN _rates r ON r.model = u.model AND r.from_at <= coalesce(u.timestamp, '') AND coalesce(u.timestamp, '') < r.until_at
  AND r.above < u.prompt_tokens AND u.prompt_tokens <= r.up_to
