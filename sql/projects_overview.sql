-- What are the projects: sessions, days active, tokens, cost, files changed and last activity of each?
--   project (text): name of the project; if several projects have this name, with the folders above it
--   repo_path (path, about): its folder
--   worktrees (number): worktrees of it in which sessions began; all counts include them
--   sessions (number): sessions; with --since or --until, the sessions that were active in that period, and all other counts are of that period
--   turns (number): human requests
--   days_active (number): local days with a billed request or a human request
--   files_changed (number): files that were created, written, edited or deleted
--   lines_added (number): lines added to these files
--   lines_removed (number): lines removed
--   commits (number): commits made
--   active_seconds (seconds): how long the agent worked on these human requests
--   estimated_seconds (seconds, detail): how much of active_seconds is estimated, because the client did not report the time
--   requests (number): billed requests, including those of subagents
--   requests_unpriced (number, detail): requests among these without a price; cost_usd does not include them
--   requests_not_final (number, detail): requests among these whose output count is only a lower bound
--   total_tokens (tokens, always): input, output, cache writes and cache reads together
--   output_tokens (tokens): output tokens
--   cost_usd (money, always): cost in USD; NULL if no request has a price
--   first_active_at (time, detail): first message of these sessions
--   last_active_at (time): last message of these sessions; newest first
-- filters: since=sessions.ended_at,turns.started_at,git_operations.timestamp,files_touched.timestamp,usage.timestamp,_costs.timestamp,last_active_at until=sessions.started_at,turns.started_at,git_operations.timestamp,files_touched.timestamp,usage.timestamp,_costs.timestamp,first_active_at project=projects.id human=sessions.id,turns.session_id,git_operations.session_id,files_touched.session_id,usage.session_id,_costs.session_id
-- total: sessions turns commits active_seconds estimated_seconds requests requests_unpriced requests_not_final total_tokens output_tokens cost_usd
-- example: ctxdb query projects_overview
WITH per_session AS MATERIALIZED (
  SELECT s.id, p.repo_path, s.started_at, s.ended_at, t.turns, t.active_ms, t.estimated_ms, g.commits,
    c.requests, c.requests_unpriced, c.requests_not_final, c.total_tokens, c.output_tokens, c.cost,
    date(coalesce(min(t.first_at, c.first_at), t.first_at, c.first_at), 'localtime') AS first_day,
    date(coalesce(max(t.last_at, c.last_at), t.last_at, c.last_at), 'localtime') AS last_day
  FROM sessions s
  JOIN projects p ON p.id = s.project_id
  LEFT JOIN (
    SELECT session_id, count(*) AS turns, sum(active_ms) AS active_ms, sum(active_ms) FILTER (WHERE agent_ms IS NULL) AS estimated_ms,
      min(started_at) AS first_at, max(started_at) AS last_at
    FROM turns GROUP BY session_id
  ) t ON t.session_id = s.id
  LEFT JOIN (SELECT session_id, count(*) AS commits FROM git_operations WHERE kind = 'commit' GROUP BY session_id) g ON g.session_id = s.id
  LEFT JOIN (
    SELECT session_id, count(*) AS requests, count(*) - count(price_id) AS requests_unpriced, count(*) - sum(output_is_final) AS requests_not_final,
      sum(input_tokens + output_tokens + cache_write_5m_tokens + cache_write_1h_tokens + cache_read_tokens) AS total_tokens,
      sum(output_tokens) AS output_tokens, sum(cost) AS cost, min(timestamp) AS first_at, max(timestamp) AS last_at
    FROM _costs
    GROUP BY session_id
  ) c ON c.session_id = s.id
),
days AS ( -- most sessions have one day; UNION keeps each day once
  SELECT repo_path, first_day AS day FROM per_session WHERE first_day IS NOT NULL
  UNION SELECT repo_path, last_day FROM per_session WHERE last_day IS NOT NULL
  UNION SELECT s.repo_path, date(t.started_at, 'localtime')
  FROM per_session s CROSS JOIN turns t ON t.session_id = s.id
  WHERE s.first_day <> s.last_day AND t.started_at IS NOT NULL
  UNION SELECT s.repo_path, date(u.timestamp, 'localtime')
  FROM per_session s CROSS JOIN usage u ON u.session_id = s.id
  WHERE s.first_day <> s.last_day AND u.timestamp IS NOT NULL
)
SELECT n.project, p.repo_path, n.worktrees, coalesce(s.sessions, 0) AS sessions, coalesce(s.turns, 0) AS turns, coalesce(d.days_active, 0) AS days_active,
  coalesce(f.files_changed, 0) AS files_changed, coalesce(f.lines_added, 0) AS lines_added, coalesce(f.lines_removed, 0) AS lines_removed,
  coalesce(s.commits, 0) AS commits, round(coalesce(s.active_ms, 0) / 1000.0, 1) AS active_seconds, round(coalesce(s.estimated_ms, 0) / 1000.0, 1) AS estimated_seconds,
  coalesce(s.requests, 0) AS requests, coalesce(s.requests_unpriced, 0) AS requests_unpriced,
  coalesce(s.requests_not_final, 0) AS requests_not_final, coalesce(s.total_tokens, 0) AS total_tokens,
  coalesce(s.output_tokens, 0) AS output_tokens,
  CASE WHEN s.requests IS NULL THEN 0.0 ELSE s.cost / 1e12 END AS cost_usd,
  s.first_active_at, s.last_active_at
FROM (SELECT DISTINCT repo_path FROM projects) p
LEFT JOIN _project_names n ON n.repo_path = p.repo_path
LEFT JOIN (
  SELECT repo_path, count(*) AS sessions, sum(turns) AS turns, sum(active_ms) AS active_ms, sum(estimated_ms) AS estimated_ms, sum(commits) AS commits,
    min(started_at) AS first_active_at, max(ended_at) AS last_active_at,
    sum(requests) AS requests, sum(requests_unpriced) AS requests_unpriced, sum(requests_not_final) AS requests_not_final,
    sum(total_tokens) AS total_tokens, sum(output_tokens) AS output_tokens, sum(cost) AS cost
  FROM per_session
  GROUP BY repo_path
) s ON s.repo_path = p.repo_path
LEFT JOIN (SELECT repo_path, count(*) AS days_active FROM days GROUP BY repo_path) d ON d.repo_path = p.repo_path
LEFT JOIN (
  SELECT p.repo_path, count(DISTINCT f.path) AS files_changed, sum(f.lines_added) AS lines_added, sum(f.lines_removed) AS lines_removed
  FROM files_touched f
  JOIN projects p ON p.id = f.project_id
  WHERE f.succeeded = 1 AND f.operation IN ('create', 'write', 'edit', 'notebook_edit', 'delete')
  GROUP BY p.repo_path
) f ON f.repo_path = p.repo_path
ORDER BY s.last_active_at DESC, p.repo_path
