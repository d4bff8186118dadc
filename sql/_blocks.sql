-- Where do the 5-hour windows of all requests lie?
--   block_start: UTC hour of the first request after the window before
--   block_end: five hours later
--   last_moment: the last millisecond before that
--   hour: block_start as hours since 1970
--   from_hour: what timestamps in that hour begin with
-- A window depends on the one before, and so on the very first request: no part of the requests tells where
-- windows lie. From each window the next is one look into the index of time.
WITH RECURSIVE firsts(at) AS (
  SELECT min(timestamp) FROM usage
  UNION ALL
  SELECT (
    SELECT min(u.timestamp) FROM usage u -- what is no time is stepped over
    WHERE u.timestamp >= coalesce(strftime('%Y-%m-%dT%H', substr(f.at, 1, 13) || ':00:00', '+5 hours'), f.at || char(1))
  )
  FROM firsts f WHERE f.at IS NOT NULL
)
SELECT strftime('%Y-%m-%dT%H:00:00.000Z', from_hour || ':00:00') AS block_start,
  strftime('%Y-%m-%dT%H:00:00.000Z', from_hour || ':00:00', '+5 hours') AS block_end,
  strftime('%Y-%m-%dT%H:59:59.999Z', from_hour || ':00:00', '+4 hours') AS last_moment,
  CAST(strftime('%s', from_hour || ':00:00') AS INTEGER) / 3600 AS hour, from_hour
FROM (SELECT substr(at, 1, 13) AS from_hour FROM firsts WHERE at IS NOT NULL)
WHERE strftime('%s', from_hour || ':00:00', '+5 hours') IS NOT NULL
