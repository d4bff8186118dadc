-- What did each branch cost?
--   project: name of the project
--   branch: the branch that the request was made on
--   cost_usd: cost in USD, subagents included, the most expensive first
--   turns: human requests
--   sessions: sessions
--   commits: commits made
--   total_tokens: input, output, cache writes and cache reads together
--   first_at: first request
--   last_at: last request
--   requests_unpriced: requests without a price: not in the cost
--   requests_not_final: requests whose output count is a lower bound
--   repo_path: the folder of the project, or of the repository whose worktree it is
-- :since (time) = 90d: from when
-- filters: until=turns.started_at project=turns.session_id session=turns.session_id
-- example: ctxdb query branch_costs -p since 2025-01-01
WITH asked AS MATERIALIZED (
  SELECT t.id, t.session_id, t.started_at, t.ended_at, coalesce(p.name, '') AS project, coalesce(p.repo_path, '') AS repo_path,
    coalesce((
      SELECT m.git_branch FROM messages m WHERE m.turn_id = t.id AND m.git_branch <> '' ORDER BY m.timestamp LIMIT 1
    ), s.git_branch, '') AS branch
  FROM turns t
  LEFT JOIN sessions s ON s.id = t.session_id
  LEFT JOIN projects p ON p.id = s.project_id
  WHERE t.started_at >= :since
)
SELECT a.project, a.branch, sum(c.cost) / 1e12 AS cost_usd, count(*) AS turns, count(DISTINCT a.session_id) AS sessions,
  sum((SELECT count(*) FROM git_operations g WHERE g.turn_id = a.id AND g.kind = 'commit')) AS commits, coalesce(sum(c.total_tokens), 0) AS total_tokens,
  min(a.started_at) AS first_at, max(a.ended_at) AS last_at,
  coalesce(sum(c.requests_unpriced), 0) AS requests_unpriced, coalesce(sum(c.requests_not_final), 0) AS requests_not_final,
  a.repo_path
FROM asked a
LEFT JOIN (
  SELECT turn_id, sum(cost) AS cost, sum(input_tokens + output_tokens + cache_write_5m_tokens + cache_write_1h_tokens + cache_read_tokens) AS total_tokens,
    count(*) - count(price_id) AS requests_unpriced, count(*) - sum(output_is_final) AS requests_not_final
  FROM _costs
  WHERE turn_id IN (SELECT id FROM asked)
  GROUP BY turn_id
) c ON c.turn_id = a.id
GROUP BY a.repo_path, a.branch -- two projects may have one name
ORDER BY cost_usd DESC, a.repo_path, a.branch
