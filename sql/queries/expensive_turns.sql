-- Which human requests cost most?
--   cost_usd (money, always): cost in USD, subagents included
--   project (text): name of the project
--   prompt (text, about): what was asked; without a human request, what the session or its agent began with
--   requests (number): billed requests that it needed
--   total_tokens (tokens, always): input, output, cache writes and cache reads together
--   cache_read_share (share): the share of the input that was read from the cache, 0 to 1
--   tools (number): tool calls
--   subagents (number): agents that it started
--   active_seconds (seconds): how long the agent worked on it; an estimate if the client did not report the time; NULL for work outside of human requests
--   started_at (time): when it was asked
--   session_id (id, always): the session
--   turn_id (id, detail): the human request; NULL for all work of a session outside of human requests
--   requests_unpriced (number, detail): billed requests without a price; the cost does not include them
--   requests_not_final (number, detail): billed requests whose output count is only a lower bound
-- :since (since) = 30d: from when
-- :limit = 20: how many human requests
-- filters: until=turns.started_at,sessions.started_at project=turns.session_id,sessions.project_id session=turns.session_id,sessions.id
-- example: ctxdb query expensive_turns -p since 2025-01-01
WITH spent AS (
  SELECT session_id, turn_id, min(timestamp) AS first_at, max(timestamp) AS last_at, sum(cost) AS cost, count(*) AS requests,
    count(*) - count(price_id) AS requests_unpriced, count(*) - sum(output_is_final) AS requests_not_final,
    sum(input_tokens + output_tokens + cache_write_5m_tokens + cache_write_1h_tokens + cache_read_tokens) AS total_tokens,
    sum(cache_read_tokens) * 1.0 / nullif(sum(input_tokens + cache_write_5m_tokens + cache_write_1h_tokens + cache_read_tokens), 0) AS cache_read_share
  FROM _costs
  WHERE turn_id IN (SELECT id FROM turns WHERE started_at >= :since)
    OR turn_id IS NULL AND session_id IN (SELECT id FROM sessions WHERE started_at >= :since)
  GROUP BY turn_id, session_id
)
SELECT c.cost / 1e12 AS cost_usd, p.name AS project,
  CASE WHEN c.turn_id IS NOT NULL THEN t.prompt ELSE (
    SELECT m.text FROM messages m
    WHERE m.session_id = c.session_id AND +m.turn_id IS NULL AND m.type = 'user' AND m.text IS NOT NULL
    ORDER BY m.source_file_id, m.byte_start LIMIT 1
  ) END AS prompt, c.requests, c.total_tokens, round(c.cache_read_share, 3) AS cache_read_share,
  CASE WHEN c.turn_id IS NOT NULL THEN (SELECT count(*) FROM tool_uses u WHERE u.turn_id = c.turn_id)
    ELSE (SELECT count(*) FROM tool_uses u WHERE u.session_id = c.session_id AND +u.turn_id IS NULL) END AS tools,
  CASE WHEN c.turn_id IS NOT NULL THEN (SELECT count(*) FROM agents a WHERE a.turn_id = c.turn_id)
    ELSE (SELECT count(*) FROM agents a WHERE a.session_id = c.session_id AND +a.turn_id IS NULL) END AS subagents,
  round(t.active_ms / 1000.0, 1) AS active_seconds,
  coalesce(t.started_at, c.first_at) AS started_at, c.session_id, c.turn_id, c.requests_unpriced, c.requests_not_final
FROM spent c
LEFT JOIN turns t ON t.id = c.turn_id
LEFT JOIN sessions s ON s.id = c.session_id
LEFT JOIN projects p ON p.id = s.project_id
WHERE c.cost IS NOT NULL
ORDER BY c.cost DESC, c.turn_id
LIMIT :limit
