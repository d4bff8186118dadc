-- Which tools are used most, how often do they fail, and how long do they take?
--   tool (text): the current name of the tool
--   mcp_server (text): its MCP server; NULL for a built-in tool
--   calls (number): how many times it was called
--   ok (number): calls that succeeded
--   errors (number): calls that failed
--   error_rate (share): errors divided by calls, 0 to 1
--   rejected (number): calls that a person or a rule refused
--   interrupted (number): calls that were interrupted
--   pending (number): calls without a result
--   median_ms (number): half of the calls took at most this many milliseconds, the wait for approval included
--   p95_ms (number): 95 of 100 calls took at most this many milliseconds
--   total_seconds (seconds): time of all calls together
--   last_used_at (time): when it was last called
-- filters: since=tool_uses.started_at project=tool_uses.session_id session=tool_uses.session_id
-- example: ctxdb query tool_stats --since 30d
WITH counts AS (
  SELECT name, count(*) AS calls, sum(status = 'ok') AS ok, sum(status = 'error') AS errors, sum(status = 'rejected') AS rejected,
    sum(status = 'interrupted') AS interrupted, sum(status = 'pending') AS pending, sum(duration_ms) AS total_ms,
    max(started_at) AS last_used_at
  FROM tool_uses
  WHERE name IS NOT NULL
  GROUP BY name
),
times AS ( -- nearest rank: the smallest duration that this share of the calls did not exceed
  SELECT name, min(CASE WHEN share >= 0.5 THEN duration_ms END) AS median_ms, min(CASE WHEN share >= 0.95 THEN duration_ms END) AS p95_ms
  FROM (
    SELECT name, duration_ms, cume_dist() OVER (PARTITION BY name ORDER BY duration_ms) AS share
    FROM tool_uses
    WHERE name IS NOT NULL AND duration_ms IS NOT NULL
  )
  GROUP BY name
)
SELECT c.name AS tool, CASE WHEN c.name GLOB 'mcp__*__*' THEN substr(c.name, 6, instr(substr(c.name, 6), '__') - 1) END AS mcp_server,
  c.calls, c.ok, c.errors, round(1.0 * c.errors / c.calls, 4) AS error_rate, c.rejected, c.interrupted, c.pending,
  t.median_ms, t.p95_ms, round(c.total_ms / 1000.0, 1) AS total_seconds, c.last_used_at
FROM counts c
LEFT JOIN times t ON t.name = c.name
ORDER BY c.calls DESC, c.name
