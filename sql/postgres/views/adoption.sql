-- Who uses Claude Code, week by week?
--   week: the Monday of the week, in the time zone of your connection
--   team: the team, as the machine's config says
--   people: people with a request in that week
--   machines: machines with one
--   sessions: sessions with one
--   requests: billed requests
--   cost_usd: cost in USD; NULL if no request has a price
SELECT date_trunc('week', r."timestamp")::date AS week, r.team, count(DISTINCT r.person) AS people,
  count(DISTINCT r.machine) AS machines, count(DISTINCT r.session_id) AS sessions, count(*) AS requests,
  (sum(r.cost) / 1e12)::float8 AS cost_usd
FROM ctxdb.requests r
GROUP BY date_trunc('week', r."timestamp")::date, r.team
ORDER BY week DESC, r.team
