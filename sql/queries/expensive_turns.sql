-- Which requests cost most?
--   cost_usd: cost in USD, subagents included
--   project: name of the project
--   prompt: what was asked
--   requests: billed requests that it took
--   total_tokens: input, output, cache writes and cache reads together
--   cache_read_share: share of the input that was read from the cache, 0 to 1
--   tools: tool calls
--   subagents: agents that it started
--   seconds: how long it took
--   started_at: when it was asked
--   session_id: the session
--   turn_id: the request
--   requests_unpriced: requests without a price: not in the cost
--   requests_not_final: requests whose output count is a lower bound
-- :since (time) = 30d: from when
-- :limit = 20: how many
-- filters: until=turns.started_at project=turns.session_id session=turns.session_id
-- example: ctxdb query expensive_turns -p since 2025-01-01
SELECT c.cost / 1e12 AS cost_usd, p.name AS project, t.prompt, c.requests, c.total_tokens, round(c.cache_read_share, 3) AS cache_read_share,
  (SELECT count(*) FROM tool_uses u WHERE u.turn_id = t.id) AS tools, (SELECT count(*) FROM agents a WHERE a.turn_id = t.id) AS subagents,
  round((julianday(t.ended_at) - julianday(t.started_at)) * 86400, 1) AS seconds, t.started_at, t.session_id, t.id AS turn_id,
  c.requests_unpriced, c.requests_not_final
FROM (
  SELECT turn_id, sum(cost) AS cost, count(*) AS requests, count(*) - count(price_id) AS requests_unpriced, count(*) - sum(output_is_final) AS requests_not_final,
    sum(input_tokens + output_tokens + cache_write_5m_tokens + cache_write_1h_tokens + cache_read_tokens) AS total_tokens,
    sum(cache_read_tokens) * 1.0 / nullif(sum(input_tokens + cache_write_5m_tokens + cache_write_1h_tokens + cache_read_tokens), 0) AS cache_read_share
  FROM _costs
  WHERE turn_id IN (SELECT id FROM turns WHERE started_at >= :since)
  GROUP BY turn_id
) c
JOIN turns t ON t.id = c.turn_id
LEFT JOIN sessions s ON s.id = t.session_id
LEFT JOIN projects p ON p.id = s.project_id
WHERE c.cost IS NOT NULL
ORDER BY c.cost DESC, t.id
LIMIT :limit
