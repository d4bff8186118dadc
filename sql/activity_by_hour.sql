-- When does the work happen: turns, tokens and cost by weekday and hour of local time?
--   weekday (text): Mon to Sun
--   hour (number): 0 to 23
--   turns (number): human requests that began in that hour
--   requests (number): billed requests
--   requests_unpriced (number, detail): requests among these without a price; cost_usd does not include them
--   requests_not_final (number, detail): requests among these whose output count is only a lower bound
--   total_tokens (tokens, always): input, output, cache writes and cache reads together
--   output_tokens (tokens): output tokens
--   cost_usd (money, always): cost in USD; NULL if no request has a price
--   weekday_number (id, detail): 1 for Monday to 7 for Sunday
-- filters: since=turns.started_at,_costs.timestamp project=turns.session_id,_costs.session_id session=turns.session_id,_costs.session_id
-- example: ctxdb query activity_by_hour --since 90d
WITH hours AS (
  SELECT strftime('%w%H', started_at, 'localtime') AS at, count(*) AS turns, 0 AS requests, 0 AS requests_unpriced, 0 AS requests_not_final,
    0 AS total_tokens, 0 AS output_tokens, NULL AS cost
  FROM turns
  WHERE started_at IS NOT NULL
  GROUP BY 1
  UNION ALL
  SELECT strftime('%w%H', first_at, 'localtime'), 0, sum(requests), sum(requests_unpriced), sum(requests_not_final), sum(total_tokens),
    sum(output_tokens), sum(cost)
  FROM (
    SELECT min(timestamp) AS first_at, count(*) AS requests, count(*) - count(price_id) AS requests_unpriced,
      count(*) - sum(output_is_final) AS requests_not_final, sum(output_tokens) AS output_tokens, sum(cost) AS cost,
      sum(input_tokens + output_tokens + cache_write_5m_tokens + cache_write_1h_tokens + cache_read_tokens) AS total_tokens
    FROM _costs
    WHERE timestamp IS NOT NULL
    GROUP BY quarter -- an index has this order; in every time zone, hours begin at a quarter of an hour
  )
  GROUP BY 1
)
SELECT substr('SunMonTueWedThuFriSat', 3 * substr(at, 1, 1) + 1, 3) AS weekday, CAST(substr(at, 2) AS INTEGER) AS hour,
  sum(turns) AS turns, sum(requests) AS requests, sum(requests_unpriced) AS requests_unpriced, sum(requests_not_final) AS requests_not_final,
  sum(total_tokens) AS total_tokens, sum(output_tokens) AS output_tokens,
  CASE WHEN sum(requests) = 0 THEN 0.0 ELSE sum(cost) / 1e12 END AS cost_usd,
  (substr(at, 1, 1) + 6) % 7 + 1 AS weekday_number
FROM hours
WHERE at IS NOT NULL
GROUP BY at
ORDER BY weekday_number, hour
