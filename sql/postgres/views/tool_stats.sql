-- How often is each tool called, how often does it fail, and how long does it take?
--   tool: name of the tool
--   mcp_server: MCP server, for tools of one
--   people: people who used it
--   calls: calls
--   ok: calls that succeeded
--   errors: calls that failed
--   error_rate: errors as a share of calls
--   rejected: calls that a person or a rule refused
--   interrupted: calls that a person stopped
--   pending: calls without a result
--   median_ms: half of the calls took at most this long
--   p95_ms: 95 of 100 calls took at most this long
--   last_used_at: when it was last called
SELECT t.name AS tool, max(t.mcp_server) AS mcp_server, count(DISTINCT m.person) AS people, count(*) AS calls,
  count(*) FILTER (WHERE t.status = 'ok') AS ok, count(*) FILTER (WHERE t.status = 'error') AS errors,
  round(count(*) FILTER (WHERE t.status = 'error') * 1.0 / count(*), 4) AS error_rate,
  count(*) FILTER (WHERE t.status = 'rejected') AS rejected, count(*) FILTER (WHERE t.status = 'interrupted') AS interrupted,
  count(*) FILTER (WHERE t.status = 'pending') AS pending,
  percentile_disc(0.5) WITHIN GROUP (ORDER BY t.duration_ms) AS median_ms,
  percentile_disc(0.95) WITHIN GROUP (ORDER BY t.duration_ms) AS p95_ms, max(t.started_at) AS last_used_at
FROM ctxdb.tool_uses t
LEFT JOIN ctxdb._machines m ON m.machine = t.machine
WHERE t.name IS NOT NULL
GROUP BY t.name
ORDER BY calls DESC, t.name
