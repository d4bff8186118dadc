-- When do the 5-hour windows of all requests begin and end?
--   block_start: the UTC hour of the first request after the window before
--   block_end: five hours after block_start
--   last_moment: the last millisecond before block_end
--   hour: block_start as hours since 1970
--   from_hour: the beginning of all timestamps in that hour
-- Each window depends on the one before, and so on the very first request: a part of the requests is not enough
-- to find the windows. The index of timestamps finds the first request after each window.
WITH RECURSIVE firsts(at) AS (
  SELECT min(timestamp) FROM usage
  UNION ALL
  SELECT (
    SELECT min(u.timestamp) FROM usage u -- a value that is not a time is skipped
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
