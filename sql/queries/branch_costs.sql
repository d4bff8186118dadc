-- What did each branch cost?
--   project (text): name of the project
--   branch (text): the branch on which the work was done
--   cost_usd (money, always): cost in USD of what was billed in the period, subagents included; the most expensive is first
--   turns (number): human requests
--   sessions (number): sessions
--   commits (number): commits made
--   total_tokens (tokens, always): input, output, cache writes and cache reads together
--   first_at (time): the first activity
--   last_at (time): the last activity
--   requests_unpriced (number, detail): billed requests without a price; the cost does not include them
--   requests_not_final (number, detail): billed requests whose output count is only a lower bound
--   repo_path (path): the folder of the project; for a worktree, the folder of its repository
-- :since (since) = 90d: from when
-- filters: until=turns.started_at,git_operations.timestamp,_costs.timestamp project=turns.session_id,git_operations.session_id,_costs.session_id session=turns.session_id,git_operations.session_id,_costs.session_id
-- example: ctxdb query branch_costs -p since 2025-01-01
-- Work before the first human request belongs to no turn; nor does a session that begins with an approved plan.
WITH done AS MATERIALIZED (
  SELECT session_id, turn_id, sum(turns) AS turns, sum(commits) AS commits, min(first_at) AS first_at, max(last_at) AS last_at,
    sum(cost) AS cost, sum(total_tokens) AS total_tokens, sum(requests_unpriced) AS requests_unpriced, sum(requests_not_final) AS requests_not_final
  FROM (
    SELECT session_id, id AS turn_id, 1 AS turns, 0 AS commits, started_at AS first_at, ended_at AS last_at,
      NULL AS cost, 0 AS total_tokens, 0 AS requests_unpriced, 0 AS requests_not_final
    FROM turns WHERE started_at >= :since
    UNION ALL
    SELECT session_id, turn_id, 0, 1, timestamp, timestamp, NULL, 0, 0, 0 FROM git_operations WHERE kind = 'commit' AND timestamp >= :since
    UNION ALL
    SELECT session_id, turn_id, 0, 0, min(timestamp), max(timestamp), sum(cost),
      sum(input_tokens + output_tokens + cache_write_5m_tokens + cache_write_1h_tokens + cache_read_tokens),
      count(*) - count(price_id), count(*) - sum(output_is_final)
    FROM _costs WHERE timestamp >= :since OR timestamp IS NULL AND :since = ''
    GROUP BY session_id, turn_id
  )
  GROUP BY session_id, turn_id
),
placed AS (
  SELECT d.*, coalesce(p.name, '') AS project, coalesce(p.repo_path, '') AS repo_path,
    coalesce(CASE WHEN d.turn_id IS NOT NULL THEN (
      SELECT m.git_branch FROM messages m WHERE m.turn_id = d.turn_id AND m.git_branch <> '' ORDER BY m.timestamp LIMIT 1
    ) ELSE (
      SELECT m.git_branch FROM messages m WHERE m.session_id = d.session_id AND +m.turn_id IS NULL AND m.git_branch <> ''
      ORDER BY m.source_file_id, m.byte_start LIMIT 1
    ) END, s.git_branch, '') AS branch
  FROM done d
  LEFT JOIN sessions s ON s.id = d.session_id
  LEFT JOIN projects p ON p.id = s.project_id
)
SELECT project, branch, sum(cost) / 1e12 AS cost_usd, sum(turns) AS turns, count(DISTINCT session_id) AS sessions,
  sum(commits) AS commits, sum(total_tokens) AS total_tokens, min(first_at) AS first_at, max(last_at) AS last_at,
  sum(requests_unpriced) AS requests_unpriced, sum(requests_not_final) AS requests_not_final, repo_path
FROM placed
GROUP BY repo_path, branch -- two projects can have the same name
ORDER BY cost_usd DESC, repo_path, branch
