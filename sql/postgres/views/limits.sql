-- Who was stopped by a usage limit, and when?
--   day: the day, in the time zone of your connection
--   person: the person, as the machine's config says; perhaps a hash
--   team: the team, as the machine's config says
--   times: messages that say so
--   sessions: sessions that were stopped
--   first_at: the first of these messages
SELECT g."timestamp"::date AS day, m.person, m.team, count(*) AS times, count(DISTINCT g.session_id) AS sessions,
  min(g."timestamp") AS first_at
FROM ctxdb.messages g
LEFT JOIN ctxdb._machines m ON m.machine = g.machine
WHERE g.is_rate_limit = 1
GROUP BY g."timestamp"::date, m.person, m.team
ORDER BY day DESC, times DESC
