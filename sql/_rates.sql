-- What does a token of each model cost, by date and size of prompt, in whole numbers?
--   model: the model, as transcripts write it
--   priced_model: the model whose prices apply
--   price_id: the row of prices
--   from_at: the rate applies from here
--   until_at: the rate applies before here
--   above: the rate applies to prompts larger than this
--   up_to: the rate applies to prompts up to this size
--   is_whole: 1 if the rate applies to all dates and sizes
--   input: 10^-12 USD per input token, which is micro-USD per million
--   output: the same for an output token
--   cache_write_5m: the same for a token written to the 5-minute cache
--   cache_write_1h: the same for a token written to the 1-hour cache
--   cache_read: the same for a token read from the cache
--   fast: numerator of the factor in fast mode
--   fast_by: its denominator
--   us: numerator of the factor if inference_geo is us
--   us_by: its denominator
-- Dates and sizes are divided into bands, at every date and size where a price of the model begins or ends. Bands
-- do not overlap, so a request is in at most one. A band has the price of its highest tier; in that tier the user's
-- price comes before the shipped one, and the latest comes first. So a user who changes the price of small prompts
-- keeps the shipped price of large ones.
WITH named AS MATERIALIZED ( -- in SQLite, n.name is from the row that has the min()
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
      -- The earliest price of a tier also applies to all time before it, the lowest tier to all smaller prompts.
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
  SELECT id, fast, us, iif(highest * fast * us > 200, 1.0, 1) AS one, -- no model costs that much; real numbers do not overflow sums
    -- 1.1 is 11 / 10; with a small denominator, sums can be larger
    CASE fast WHEN round(fast) THEN 1 WHEN round(fast, 1) THEN 10 WHEN round(fast, 2) THEN 100 ELSE 10000 END AS fast_by,
    CASE us WHEN round(us) THEN 1 WHEN round(us, 1) THEN 10 WHEN round(us, 2) THEN 100 ELSE 10000 END AS us_by
  FROM (
    SELECT id, coalesce(nullif(fast_multiplier, ''), 1) AS fast, coalesce(nullif(us_geo_multiplier, ''), 1) AS us,
      max(input_usd_per_mtok, output_usd_per_mtok, cache_write_5m_usd_per_mtok, cache_write_1h_usd_per_mtok, cache_read_usd_per_mtok) AS highest
    FROM prices
  )
) f ON f.id = p.id
