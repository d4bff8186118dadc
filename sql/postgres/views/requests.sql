-- What did each billed request use and cost, and whose was it?
--   session_id: its session
--   request_key: the key that makes it one request
--   timestamp: time of its first line
--   day: that day, in the time zone of your connection (SET TIME ZONE)
--   machine: the machine whose row counts
--   person: the person, as the machine's config says; perhaps a hash
--   team: the team, as the machine's config says
--   repository: owner/name of the repository, or the name of its folder; a hash at level usage
--   model: the model, as transcripts write it
--   priced_model: the model whose prices apply; NULL without a price
--   agent_id: its agent; NULL for the main thread
--   turn: the human request it belongs to: turns.ordinal
--   input_tokens: input tokens that were neither written to the cache nor read from it
--   output_tokens: output tokens, thinking included
--   cache_write_tokens: tokens written to the 5-minute and the 1-hour cache
--   cache_read_tokens: tokens read from the cache
--   total_tokens: all of these together
--   web_search_requests: web searches
--   output_is_final: 1 if the output count is final; otherwise it is a lower bound
--   cost: in 10^-12 USD, as its machine worked it out from its price list; NULL without a price
--   cost_uncached: the cost if every token had been plain input, in 10^-12 USD
--   cost_usd: cost in USD
SELECT u.session_id, u.request_key, u."timestamp", u."timestamp"::date AS day, u.machine, m.person, m.team,
  s.repository, u.model, u.priced_model, u.agent_id, u.turn, u.input_tokens, u.output_tokens,
  u.cache_write_5m_tokens + u.cache_write_1h_tokens AS cache_write_tokens, u.cache_read_tokens,
  u.input_tokens + u.output_tokens + u.cache_write_5m_tokens + u.cache_write_1h_tokens + u.cache_read_tokens AS total_tokens,
  u.web_search_requests, u.output_is_final, u.cost, u.cost_uncached, (u.cost / 1e12)::float8 AS cost_usd
FROM ctxdb.usage u
LEFT JOIN ctxdb._machines m ON m.machine = u.machine
LEFT JOIN ctxdb._sessions s ON s.session_id = u.session_id AND s.machine = u.machine
