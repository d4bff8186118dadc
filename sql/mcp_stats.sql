-- Which MCP servers and tools are used, how often do they fail, and how long do they take?
--   server (text): the MCP server
--   tool (text): its tool
--   calls (number): how many times it was called
--   ok (number): calls that succeeded
--   errors (number): calls that failed
--   error_rate (share): errors divided by calls, 0 to 1
--   rejected (number): calls that a person or a rule refused
--   median_ms (number): half of the calls took at most this many milliseconds, the wait for approval included
--   p95_ms (number): 95 of 100 calls took at most this many milliseconds
--   result_bytes (bytes): size of all results together, which go into the context
--   sessions (number): how many sessions used it
--   last_used_at (time): when it was last called
-- filters: since=tool_uses.started_at project=tool_uses.session_id session=tool_uses.session_id
-- example: ctxdb query mcp_stats
WITH calls AS (
  SELECT mcp_server, name, raw_name, status, duration_ms, result_bytes, session_id, started_at,
    CASE WHEN duration_ms IS NOT NULL THEN cume_dist() OVER (PARTITION BY name, duration_ms IS NULL ORDER BY duration_ms) END AS share
  FROM tool_uses
  WHERE name >= 'mcp__' AND name < 'mcp_`' AND mcp_server IS NOT NULL
)
SELECT mcp_server AS server, substr(name, length('mcp__' || mcp_server || '__') + 1) AS tool, count(*) AS calls,
  sum(status = 'ok') AS ok, sum(status = 'error') AS errors, round(1.0 * sum(status = 'error') / count(*), 4) AS error_rate,
  sum(status = 'rejected') AS rejected,
  min(CASE WHEN share >= 0.5 THEN duration_ms END) AS median_ms, min(CASE WHEN share >= 0.95 THEN duration_ms END) AS p95_ms,
  sum(result_bytes) AS result_bytes, count(DISTINCT session_id) AS sessions, max(started_at) AS last_used_at
FROM calls
GROUP BY mcp_server, name
ORDER BY calls DESC, server, tool
