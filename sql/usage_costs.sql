-- What did each billed request cost, and by which price?
--   id (id): the row of usage
--   request_key (text, detail): the key that makes it one request
--   timestamp (time): time of its first line; newest first
--   session_id (id, always): its session
--   project (text): name of the session's project
--   agent_id (id, detail): its agent; NULL for the main thread
--   turn_id (id, detail): the human request it belongs to
--   model (text): the model, as transcripts write it
--   priced_model (text): the model in the price list whose prices apply; NULL if there is none
--   input_tokens (tokens): input tokens that were neither written to the cache nor read from it
--   output_tokens (tokens): output tokens, thinking included; a lower bound unless output_is_final is 1
--   cache_write_5m_tokens (tokens, detail): tokens written to the 5-minute cache
--   cache_write_1h_tokens (tokens, detail): tokens written to the 1-hour cache
--   cache_read_tokens (tokens): tokens read from the cache
--   total_tokens (tokens, always): input, output, cache writes and cache reads together
--   prompt_tokens (tokens): the size of the largest single call in the request, which decides the price tier
--   web_search_requests (number, detail): web searches, 0.01 USD each
--   speed (text): standard or fast
--   inference_geo (text): the region where it ran
--   price_id (id, detail): the row of prices
--   price_origin (text): who set the price: shipped or user
--   effective_from (text): the price applies from this day
--   prompt_tokens_gt (number): the price applies to prompts larger than this
--   input_usd_per_mtok (money): price of a million input tokens
--   output_usd_per_mtok (money): price of a million output tokens
--   cache_write_5m_usd_per_mtok (money): price of a million tokens written to the 5-minute cache
--   cache_write_1h_usd_per_mtok (money): price of a million tokens written to the 1-hour cache
--   cache_read_usd_per_mtok (money): price of a million tokens read from the cache
--   multiplier (number): the factor for fast mode and region; usually 1
--   cost_usd (money, always): cost in USD; NULL without a price
--   cost_reported_usd (money): costUSD, which old versions wrote; it is not part of any sum
--   output_is_final (number, detail): 1 if the output count is final; otherwise it is a lower bound
-- filters: since=_costs.timestamp project=_costs.session_id session=_costs.session_id model=_costs.model
-- period: 30d
-- example: ctxdb query usage_costs --limit 20
SELECT c.id, c.request_key, c.timestamp, c.session_id, j.name AS project, c.agent_id, c.turn_id, c.model, c.priced_model,
  c.input_tokens, c.output_tokens, c.cache_write_5m_tokens, c.cache_write_1h_tokens, c.cache_read_tokens,
  c.input_tokens + c.output_tokens + c.cache_write_5m_tokens + c.cache_write_1h_tokens + c.cache_read_tokens AS total_tokens,
  c.prompt_tokens, c.web_search_requests, c.speed, c.inference_geo,
  c.price_id, p.origin AS price_origin, p.effective_from, p.prompt_tokens_gt, p.input_usd_per_mtok, p.output_usd_per_mtok,
  p.cache_write_5m_usd_per_mtok, p.cache_write_1h_usd_per_mtok, p.cache_read_usd_per_mtok, c.multiplier,
  c.cost / 1e12 AS cost_usd, c.cost_reported_usd, c.output_is_final
FROM _costs c
LEFT JOIN prices p ON p.id = c.price_id
LEFT JOIN sessions s ON s.id = c.session_id
LEFT JOIN projects j ON j.id = s.project_id
ORDER BY c.timestamp DESC, c.id DESC
