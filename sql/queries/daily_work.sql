-- What was done each day: sessions, human requests, time of the agent, tool calls and failures?
--   day (text): the local day; newest first
--   sessions (number): sessions with a human request, a tool call or a billed request on that day
--   turns (number): human requests that began on that day
--   active_seconds (seconds): how long the agent worked on these human requests
--   estimated_seconds (seconds, detail): how much of active_seconds is estimated, because the client did not report the time
--   tools (number): tool calls that began on that day
--   errors (number): calls among these that failed
--   requests (number): billed requests
-- filters: since=turns.started_at,tool_uses.started_at,usage.timestamp project=turns.session_id,tool_uses.session_id,usage.session_id session=turns.session_id,tool_uses.session_id,usage.session_id
-- period: 30d
-- example: ctxdb query daily_work --since 7d
WITH done AS (
  SELECT date(started_at, 'localtime') AS day, session_id, count(*) AS turns, total(active_ms) AS active_ms,
    total(active_ms) FILTER (WHERE agent_ms IS NULL) AS estimated_ms, 0 AS tools, 0 AS errors, 0 AS requests
  FROM turns
  GROUP BY 1, 2
  UNION ALL
  SELECT date(first_at, 'localtime'), session_id, 0, 0, 0, calls, 0, 0
  FROM (
    SELECT min(started_at) AS first_at, session_id, count(*) AS calls
    FROM tool_uses
    GROUP BY session_id, substr(started_at, 1, 14) || (substr(started_at, 15, 2) / 15) -- fewer times to convert
  )
  UNION ALL
  SELECT date(started_at, 'localtime'), session_id, 0, 0, 0, 0, 1, 0 FROM tool_uses WHERE status = 'error' AND status <> 'ok' -- few; an index has these
  UNION ALL
  SELECT date(first_at, 'localtime'), session_id, 0, 0, 0, 0, 0, requests
  FROM (
    SELECT min(timestamp) AS first_at, session_id, count(*) AS requests
    FROM usage
    GROUP BY substr(timestamp, 1, 14) || (substr(timestamp, 15, 2) / 15), session_id
  )
)
SELECT day, count(DISTINCT session_id) AS sessions, sum(turns) AS turns, round(sum(active_ms) / 1000.0, 1) AS active_seconds,
  round(sum(estimated_ms) / 1000.0, 1) AS estimated_seconds, sum(tools) AS tools, sum(errors) AS errors, sum(requests) AS requests
FROM done
WHERE day IS NOT NULL
GROUP BY day
ORDER BY day DESC
