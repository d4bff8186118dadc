-- What are the projects: sessions, days active, tokens, cost, files changed and last activity of each?
--   project (text): name of the project; worktrees have the name of their repository
--   path (path, about): the folder in which its sessions began
--   sessions (number): sessions; with --since or --until, the sessions that were active in that period, and all other counts are of that period
--   turns (number): human requests
--   days_active (number): local days with a billed request or a human request
--   files_changed (number): files that were created, written, edited or deleted
--   lines_added (number): lines added to these files
--   lines_removed (number): lines removed
--   commits (number): commits made
--   requests (number): billed requests, including those of subagents
--   requests_unpriced (number, detail): requests among these without a price; cost_usd does not include them
--   requests_not_final (number, detail): requests among these whose output count is only a lower bound
--   total_tokens (tokens, always): input, output, cache writes and cache reads together
--   output_tokens (tokens): output tokens
--   cost_usd (money, always): cost in USD; NULL if no request has a price
--   first_active_at (time, detail): first message of these sessions
--   last_active_at (time): last message of these sessions; newest first
--   repo_path (path): the folder of the repository, if path is one of its worktrees
--   project_id (id, detail): the project
-- filters: since=sessions.ended_at,turns.started_at,git_operations.timestamp,files_touched.timestamp,usage.timestamp,_costs.timestamp,last_active_at until=sessions.started_at,turns.started_at,git_operations.timestamp,files_touched.timestamp,usage.timestamp,_costs.timestamp,first_active_at project=project_id
-- example: ctxdb query projects_overview
SELECT p.name AS project, p.path, coalesce(s.sessions, 0) AS sessions, coalesce(s.turns, 0) AS turns, coalesce(d.days_active, 0) AS days_active,
  coalesce(f.files_changed, 0) AS files_changed, coalesce(f.lines_added, 0) AS lines_added, coalesce(f.lines_removed, 0) AS lines_removed,
  coalesce(s.commits, 0) AS commits, coalesce(s.requests, 0) AS requests, coalesce(s.requests_unpriced, 0) AS requests_unpriced,
  coalesce(s.requests_not_final, 0) AS requests_not_final, coalesce(s.total_tokens, 0) AS total_tokens,
  coalesce(s.output_tokens, 0) AS output_tokens,
  CASE WHEN s.requests IS NULL THEN 0.0 ELSE s.cost / 1e12 END AS cost_usd,
  s.first_active_at, s.last_active_at, p.repo_path, p.id AS project_id
FROM projects p
LEFT JOIN (
  SELECT s.project_id, count(*) AS sessions, sum((SELECT count(*) FROM turns t WHERE t.session_id = s.id)) AS turns,
    sum((SELECT count(*) FROM git_operations g WHERE g.session_id = s.id AND g.kind = 'commit')) AS commits,
    min(s.started_at) AS first_active_at, max(s.ended_at) AS last_active_at,
    sum(c.requests) AS requests, sum(c.requests_unpriced) AS requests_unpriced, sum(c.requests_not_final) AS requests_not_final,
    sum(c.total_tokens) AS total_tokens, sum(c.output_tokens) AS output_tokens, sum(c.cost) AS cost
  FROM sessions s
  LEFT JOIN (
    SELECT session_id, count(*) AS requests, count(*) - count(price_id) AS requests_unpriced, count(*) - sum(output_is_final) AS requests_not_final,
      sum(input_tokens + output_tokens + cache_write_5m_tokens + cache_write_1h_tokens + cache_read_tokens) AS total_tokens,
      sum(output_tokens) AS output_tokens, sum(cost) AS cost
    FROM _costs
    GROUP BY session_id
  ) c ON c.session_id = s.id
  GROUP BY s.project_id
) s ON s.project_id = p.id
LEFT JOIN (
  SELECT s.project_id, count(DISTINCT d.day) AS days_active
  FROM (
    SELECT session_id, date(started_at, 'localtime') AS day FROM turns
    UNION SELECT session_id, date(timestamp, 'localtime') FROM usage -- UNION keeps each day once; a session has few days
  ) d
  JOIN sessions s ON s.id = d.session_id
  GROUP BY s.project_id
) d ON d.project_id = p.id
LEFT JOIN (
  SELECT project_id, count(DISTINCT path) AS files_changed, sum(lines_added) AS lines_added, sum(lines_removed) AS lines_removed
  FROM files_touched
  WHERE succeeded = 1 AND operation IN ('create', 'write', 'edit', 'notebook_edit', 'delete')
  GROUP BY project_id
) f ON f.project_id = p.id
ORDER BY s.last_active_at DESC, p.path
