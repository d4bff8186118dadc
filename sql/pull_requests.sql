-- What went into each pull request: sessions, turns, commits, tokens and cost?
--   last_at (time): when it was last created, pushed to or linked; newest first
--   project (text): name of the project
--   pr_number (id): its number
--   pr_url (text): its URL
--   sessions (number): sessions that created or named it; with --project or --session, all counts are of that project or session
--   turns (number): human requests that led to it; each counts for the next pull request of its session, or for the last if there is no next
--   commits (number): commits of these turns and of its sessions' work outside of turns; so are all counts below
--   files_changed (number): files that these turns changed
--   requests (number): billed requests of these turns, including those of subagents
--   requests_unpriced (number, detail): requests among these without a price; cost_usd does not include them
--   requests_not_final (number, detail): requests among these whose output count is only a lower bound
--   total_tokens (tokens, always): input, output, cache writes and cache reads together
--   output_tokens (tokens): output tokens
--   cost_usd (money, always): cost of these turns in USD; NULL if no request has a price
--   first_at (time): when it was first seen
--   session_id (id, always): the session that first created or named it
-- filters: since=last_at until=first_at project=git_operations.session_id session=git_operations.session_id
-- example: ctxdb query pull_requests --limit 10
WITH seen AS (
  SELECT coalesce(g.pr_url, s.project_id || '#' || g.pr_number) AS pr, g.session_id, s.project_id, max(g.pr_number) AS pr_number, g.pr_url,
    min(g.timestamp) AS first_at, max(g.timestamp) AS last_at
  FROM git_operations g
  LEFT JOIN sessions s ON s.id = g.session_id
  WHERE g.kind = 'pr'
  GROUP BY 1, g.session_id
),
led AS ( -- each turn of these sessions, and the pull request that it led to; work outside of turns comes first
  SELECT t.session_id, t.turn_id, coalesce(t.turn_id, t.session_id) AS unit, coalesce(
    (SELECT n.pr FROM seen n WHERE n.session_id = t.session_id AND n.first_at >= t.started_at ORDER BY n.first_at, n.pr LIMIT 1),
    (SELECT n.pr FROM seen n WHERE n.session_id = t.session_id ORDER BY n.first_at DESC, n.pr LIMIT 1)) AS pr
  FROM (
    SELECT session_id, id AS turn_id, started_at FROM turns WHERE session_id IN (SELECT session_id FROM seen)
    UNION ALL SELECT DISTINCT session_id, NULL, '' FROM seen
  ) t
),
work AS (
  SELECT l.pr, count(l.turn_id) AS turns,
    sum((SELECT count(*) FROM git_operations g WHERE g.session_id = l.session_id AND +g.turn_id IS l.turn_id AND g.kind = 'commit')) AS commits,
    sum(c.requests) AS requests, sum(c.requests_unpriced) AS requests_unpriced, sum(c.requests_not_final) AS requests_not_final,
    sum(c.total_tokens) AS total_tokens, sum(c.output_tokens) AS output_tokens, sum(c.cost) AS cost
  FROM led l
  LEFT JOIN (
    SELECT coalesce(turn_id, session_id) AS unit, count(*) AS requests, count(*) - count(price_id) AS requests_unpriced, count(*) - sum(output_is_final) AS requests_not_final,
      sum(input_tokens + output_tokens + cache_write_5m_tokens + cache_write_1h_tokens + cache_read_tokens) AS total_tokens,
      sum(output_tokens) AS output_tokens, sum(cost) AS cost
    FROM _costs
    WHERE turn_id IN (SELECT turn_id FROM led) OR turn_id IS NULL AND session_id IN (SELECT session_id FROM seen)
    GROUP BY 1
  ) c ON c.unit = l.unit
  GROUP BY l.pr
)
SELECT max(n.last_at) AS last_at, p.name AS project, max(n.pr_number) AS pr_number, n.pr_url, count(DISTINCT n.session_id) AS sessions,
  coalesce(w.turns, 0) AS turns, coalesce(w.commits, 0) AS commits,
  (
    SELECT count(DISTINCT f.path) FROM led l
    JOIN files_touched f ON f.turn_id = l.turn_id OR l.turn_id IS NULL AND f.session_id = l.session_id AND f.turn_id IS NULL
    WHERE l.pr = n.pr AND f.succeeded = 1 AND f.operation IN ('create', 'write', 'edit', 'notebook_edit', 'delete')
  ) AS files_changed,
  coalesce(w.requests, 0) AS requests, coalesce(w.requests_unpriced, 0) AS requests_unpriced,
  coalesce(w.requests_not_final, 0) AS requests_not_final, coalesce(w.total_tokens, 0) AS total_tokens,
  coalesce(w.output_tokens, 0) AS output_tokens,
  CASE WHEN w.requests IS NULL THEN 0.0 ELSE w.cost / 1e12 END AS cost_usd,
  min(n.first_at) AS first_at,
  (SELECT e.session_id FROM seen e WHERE e.pr = n.pr ORDER BY e.first_at, e.session_id LIMIT 1) AS session_id
FROM seen n
LEFT JOIN projects p ON p.id = n.project_id
LEFT JOIN work w ON w.pr = n.pr
GROUP BY n.pr
ORDER BY last_at DESC, n.pr
