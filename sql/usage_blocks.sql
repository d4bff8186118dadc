-- What was used in each 5-hour window, how fast, and when was the limit hit?
--   block_start (time): the UTC hour of the first request after the window before; newest first; filters choose windows and requests, but never move a window
--   block_end (time): five hours after block_start
--   block_start_local (text, detail): block_start in local time
--   first_used_at (time, detail): time of the first request
--   last_used_at (time): time of the last request
--   models (text): the models that were used
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
--   minutes (number): minutes from the first request to the last
--   tokens_per_minute (tokens): burn rate: total_tokens divided by minutes, which count as at least one
--   cost_usd_per_hour (money): burn rate: cost_usd divided by the same time in hours
--   rate_limited_at (time, always): time of the first rate-limit error in the window; NULL if there was none
-- filters: since=_blocks.last_moment until=_blocks.block_start project=_costs.session_id session=_costs.session_id model=_costs.model
-- period: 30d
-- total: requests input_tokens output_tokens cache_write_5m_tokens cache_write_1h_tokens cache_read_tokens total_tokens web_search_requests cost_usd requests_unpriced requests_not_final
-- example: ctxdb query usage_blocks --limit 10
-- The windows are those of all requests, also if a filter chooses a part of the requests; a period chooses windows.
-- Windows begin and end on the hour. So requests are first summed by hour, in the order of an index.
WITH windows AS MATERIALIZED (SELECT * FROM _blocks),
sums AS MATERIALIZED (
  SELECT CAST(strftime('%s', substr(first_used_at, 1, 13) || ':00:00') AS INTEGER) / 3600 AS hour, *
  FROM (
    SELECT min(timestamp) AS first_used_at, max(timestamp) AS last_used_at, model, count(*) AS requests, sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens,
      sum(cache_write_5m_tokens) AS cache_write_5m_tokens, sum(cache_write_1h_tokens) AS cache_write_1h_tokens,
      sum(cache_read_tokens) AS cache_read_tokens, sum(web_search_requests) AS web_search_requests,
      sum(cost) AS cost, count(*) - count(price_id) AS requests_unpriced, count(*) - sum(output_is_final) AS requests_not_final
    FROM _costs
    WHERE quarter >= (SELECT min(from_hour) FROM windows) AND quarter < (SELECT max(block_end) FROM windows)
    GROUP BY quarter, model
  )
),
limits AS MATERIALIZED (
  SELECT timestamp AS at FROM messages
  WHERE kind IN ('system', 'interruption', 'synthetic') AND json_valid(data) AND (
    kind = 'synthetic' AND json_extract(data, '$.isApiErrorMessage') = 1 AND (
      json_extract(data, '$.error') = 'rate_limit' OR json_extract(data, '$.apiErrorStatus') = 429
      OR text LIKE '%limit reached%' OR text LIKE '%hit your%limit%')
    OR kind = 'system' AND subtype = 'api_error' AND coalesce(json_extract(data, '$.apiErrorStatus'), json_extract(data, '$.error.status')) = 429)
),
by_model AS (
  SELECT w.hour, w.block_start, w.block_end, min(first_used_at) AS first_used_at, max(last_used_at) AS last_used_at, model,
    sum(requests) AS requests, sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens,
    sum(cache_write_5m_tokens) AS cache_write_5m_tokens, sum(cache_write_1h_tokens) AS cache_write_1h_tokens,
    sum(cache_read_tokens) AS cache_read_tokens, sum(web_search_requests) AS web_search_requests, sum(cost) AS cost,
    sum(requests_unpriced) AS requests_unpriced, sum(requests_not_final) AS requests_not_final
  FROM windows w
  JOIN (VALUES (0), (1), (2), (3), (4)) n
  JOIN sums ON sums.hour = w.hour + n.column1
  GROUP BY w.hour, model
  ORDER BY w.hour, model
),
blocks AS (
  SELECT block_start, block_end, min(first_used_at) AS first_used_at, max(last_used_at) AS last_used_at, group_concat(model, ', ') AS models,
    sum(requests) AS requests, sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens,
    sum(cache_write_5m_tokens) AS cache_write_5m_tokens, sum(cache_write_1h_tokens) AS cache_write_1h_tokens,
    sum(cache_read_tokens) AS cache_read_tokens,
    sum(input_tokens + output_tokens + cache_write_5m_tokens + cache_write_1h_tokens + cache_read_tokens) AS total_tokens,
    sum(web_search_requests) AS web_search_requests, sum(cost) / 1e12 AS cost_usd,
    sum(requests_unpriced) AS requests_unpriced, sum(requests_not_final) AS requests_not_final,
    (julianday(max(last_used_at)) - julianday(min(first_used_at))) * 1440 AS minutes
  FROM by_model
  GROUP BY hour
)
SELECT block_start, block_end, datetime(block_start, 'localtime') AS block_start_local, first_used_at, last_used_at, models,
  requests, input_tokens, output_tokens, cache_write_5m_tokens, cache_write_1h_tokens, cache_read_tokens, total_tokens,
  web_search_requests, cost_usd, requests_unpriced, requests_not_final, round(minutes, 1) AS minutes,
  round(total_tokens / max(minutes, 1)) AS tokens_per_minute, cost_usd / max(minutes, 1) * 60 AS cost_usd_per_hour,
  (SELECT min(at) FROM limits WHERE at >= block_start AND at < block_end) AS rate_limited_at
FROM blocks
ORDER BY block_start DESC
