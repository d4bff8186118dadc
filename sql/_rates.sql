-- What does a token of each model cost, by date and size of prompt, in whole numbers?
--   model: model as transcripts write it
--   priced_model: model whose prices hold for it
--   price_id: row of prices
--   from_at: holds from here
--   until_at: and before here
--   above: for prompts larger than this
--   up_to: and at most this
--   is_whole: 1 when it holds for all dates and sizes
--   input: 10^-12 USD per token, that is micro-USD per million
--   output: the same for output
--   cache_write_5m: the same for writes to the 5-minute cache
--   cache_write_1h: the same for writes to the 1-hour cache
--   cache_read: the same for reads from the cache
--   fast: factor in fast mode, numerator
--   fast_by: denominator
--   us: factor where inference_geo is us, numerator
--   us_by: denominator
-- Dates and sizes are cut wherever any price of the model begins or ends, so that bands do not overlap
-- and a request meets at most one. In each band the highest tier wins,
-- of its rows the user's, of these the latest: who corrects the price of small prompts keeps that of large ones.
WITH named AS MATERIALIZED ( -- a bare column beside min() is of the same row
  SELECT n.model, n.name, min(n.place)
  FROM _model_names n
  WHERE n.name IN (SELECT p.model FROM prices p)
  GROUP BY n.model
),
fitting AS MATERIALIZED (
  SELECT id, model, from_at, until_at, above,
    row_number() OVER (PARTITION BY model ORDER BY above, origin = 'user', from_at, id) AS place
  FROM (
    SELECT id, model, origin,
      -- The earliest row of a tier holds for all time before it, the lowest tier for the smallest prompts.
      CASE WHEN coalesce(effective_from, '') = min(coalesce(effective_from, '')) OVER (PARTITION BY model, prompt_tokens_gt)
        THEN '' ELSE effective_from END AS from_at,
      coalesce(nullif(effective_to, ''), char(1114111)) AS until_at,
      CASE WHEN prompt_tokens_gt = min(prompt_tokens_gt) OVER (PARTITION BY model)
        THEN -1 ELSE prompt_tokens_gt END AS above
    FROM prices WHERE model IN (SELECT name FROM named)
  )
),
dates AS (
  SELECT model, at, lead(at, 1, char(1114111)) OVER (PARTITION BY model ORDER BY at) AS until_at
  FROM (
    SELECT model, from_at AS at FROM fitting UNION SELECT model, until_at FROM fitting
    UNION SELECT model, '' FROM fitting
  )
),
sizes AS (
  SELECT model, above, lead(above, 1, 9223372036854775807) OVER (PARTITION BY model ORDER BY above) AS up_to
  FROM (SELECT DISTINCT model, above FROM fitting)
),
bands AS MATERIALIZED (
  SELECT d.model, d.at AS from_at, d.until_at, s.above, s.up_to, f.id AS price_id, max(f.place)
  FROM dates d
  JOIN sizes s ON s.model = d.model
  JOIN fitting f ON f.model = d.model AND f.from_at <= d.at AND d.at < f.until_at AND f.above <= s.above
  GROUP BY d.model, d.at, s.above
)
SELECT n.model, n.name AS priced_model, b.price_id, b.from_at, b.until_at, b.above, b.up_to,
  b.from_at = '' AND b.until_at = char(1114111) AND b.above = -1 AND b.up_to = 9223372036854775807 AS is_whole,
  CAST(round(p.input_usd_per_mtok * 1000000) AS INTEGER) * f.one AS input,
  CAST(round(p.output_usd_per_mtok * 1000000) AS INTEGER) * f.one AS output,
  CAST(round(p.cache_write_5m_usd_per_mtok * 1000000) AS INTEGER) * f.one AS cache_write_5m,
  CAST(round(p.cache_write_1h_usd_per_mtok * 1000000) AS INTEGER) * f.one AS cache_write_1h,
  CAST(round(p.cache_read_usd_per_mtok * 1000000) AS INTEGER) * f.one AS cache_read,
  CAST(round(f.fast * f.fast_by) AS INTEGER) AS fast, f.fast_by,
  CAST(round(f.us * f.us_by) AS INTEGER) AS us, f.us_by
FROM named n
JOIN bands b ON b.model = n.name
JOIN prices p ON p.id = b.price_id
JOIN (
  SELECT id, fast, us, iif(highest * fast * us > 200, 1.0, 1) AS one, -- no model costs that much: real numbers do not overflow sums
    -- 1.1 is 11 / 10: a small denominator leaves room for large sums
    CASE fast WHEN round(fast) THEN 1 WHEN round(fast, 1) THEN 10 WHEN round(fast, 2) THEN 100 ELSE 10000 END AS fast_by,
    CASE us WHEN round(us) THEN 1 WHEN round(us, 1) THEN 10 WHEN round(us, 2) THEN 100 ELSE 10000 END AS us_by
  FROM (
    SELECT id, coalesce(nullif(fast_multiplier, ''), 1) AS fast, coalesce(nullif(us_geo_multiplier, ''), 1) AS us,
      max(input_usd_per_mtok, output_usd_per_mtok, cache_write_5m_usd_per_mtok, cache_write_1h_usd_per_mtok, cache_read_usd_per_mtok) AS highest
    FROM prices
  )
) f ON f.id = p.id
