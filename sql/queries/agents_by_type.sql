-- Which kinds of subagents are used, how do they end, how long do they take and what do they cost?
--   agent_type (text): Explore, general-purpose, ...; the kind of the agent if it has no type
--   runs (number): how many agents
--   completed (number): agents that completed
--   failed (number): agents that failed
--   tools (number): their tool calls; calls, tokens and cost are only of agents whose messages are in the database
--   total_tokens (tokens, always): their tokens
--   cost_usd (money, always): their cost in USD
--   cost_per_run_usd (money): the mean cost of an agent in USD
--   median_seconds (seconds): half of them took at most this long
--   last_at (time): when such an agent last began
--   requests_unpriced (number, detail): billed requests without a price; the cost does not include them
--   requests_not_final (number, detail): billed requests whose output count is only a lower bound
-- :since (since) = 90d: from when
-- filters: until=subagent_runs.started_at project=subagent_runs.session_id session=subagent_runs.session_id
-- example: ctxdb query agents_by_type -p since 2025-01-01
SELECT agent_type, count(*) AS runs, sum(status = 'completed') AS completed, sum(status = 'failed') AS failed, sum(tools) AS tools, sum(total_tokens) AS total_tokens,
  sum(cost_usd) AS cost_usd, avg(cost_usd) AS cost_per_run_usd, min(CASE WHEN share >= 0.5 THEN seconds END) AS median_seconds, max(started_at) AS last_at,
  sum(requests_unpriced) AS requests_unpriced, sum(requests_not_final) AS requests_not_final
FROM (
  SELECT coalesce(r.agent_type, r.kind) AS agent_type, r.status, r.tools, r.total_tokens, r.cost_usd, r.seconds, r.started_at, r.requests_unpriced, r.requests_not_final,
    CASE WHEN r.seconds IS NOT NULL THEN cume_dist() OVER (PARTITION BY coalesce(r.agent_type, r.kind), r.seconds IS NULL ORDER BY r.seconds) END AS share
  FROM subagent_runs r
  WHERE r.started_at >= :since
)
GROUP BY agent_type
ORDER BY runs DESC, agent_type
