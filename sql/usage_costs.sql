-- What did each billed request cost, and by which price?
--   id (id): row of usage
--   request_key (text, detail): what makes it one request
--   timestamp (time): time of its first line, newest first
--   session_id (id, always): its session
--   project (text): name of the session's project
--   agent_id (id, detail): its agent, NULL for the main thread
--   turn_id (id, detail): the human request it belongs to
--   model (text): model as the transcripts name it
--   priced_model (text): model of the price list whose prices hold for it, NULL without one
--   input_tokens (tokens): input that was neither written to nor read from the cache
--   output_tokens (tokens): output, thinking included; a lower bound unless output_is_final
--   cache_write_5m_tokens (tokens, detail): written to the 5-minute cache
--   cache_write_1h_tokens (tokens, detail): written to the 1-hour cache
--   cache_read_tokens (tokens): read from the cache
--   total_tokens (tokens, always): all of these
--   prompt_tokens (tokens): size of the largest single call in it: decides the tier
--   web_search_requests (number, detail): web searches, 0.01 USD each
--   speed (text): standard or fast
--   inference_geo (text): where it ran
--   price_id (id, detail): row of prices
--   price_origin (text): shipped or user
--   effective_from (text): the price holds from this day
--   prompt_tokens_gt (number): the price holds for prompts larger than this
--   input_usd_per_mtok (money): price of a million tokens of input
--   output_usd_per_mtok (money): of output
--   cache_write_5m_usd_per_mtok (money): of writes to the 5-minute cache
--   cache_write_1h_usd_per_mtok (money): of writes to the 1-hour cache
--   cache_read_usd_per_mtok (money): of reads from the cache
--   multiplier (number): factor for fast mode and place, 1 for most
--   cost_usd (money, always): what it cost, NULL without a price
--   cost_reported_usd (money): costUSD as old versions wrote it; never mixed into sums
--   output_is_final (number, detail): 1 when the output count is final, else it is a lower bound
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
