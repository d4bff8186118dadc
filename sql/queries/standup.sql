-- What did I do since yesterday, by project?
--   project: name of the project, the busiest first
--   sessions: sessions that were active
--   turns: human requests
--   asked: what was asked, in order; what was asked again is counted
--   files_changed: files that were changed
--   files: their names
--   commits: what was committed
--   pull_requests: pull requests that were made or named
--   cost_usd: cost in USD; NULL when no request has a price
--   hours: time the agent spent on the requests
--   last_active_at: when last
--   requests_unpriced: requests without a price: not in the cost
--   requests_not_final: requests whose output count is a lower bound
--   repo_path: the folder of the project, or of the repository whose worktree it is
-- :since (time) = yesterday: from when
-- :until (time) = now: until when
-- filters: project=turns.session_id session=turns.session_id
-- example: ctxdb query standup -p since 2026-10-01
WITH asked AS MATERIALIZED (
  SELECT t.id, t.session_id, t.prompt, t.started_at, t.ended_at, coalesce(p.name, '') AS project, coalesce(p.repo_path, '') AS repo_path -- two projects may have one name
  FROM turns t
  LEFT JOIN sessions s ON s.id = t.session_id
  LEFT JOIN projects p ON p.id = s.project_id
  WHERE t.started_at >= :since AND t.started_at < :until
  ORDER BY t.started_at, t.id
),
said AS (
  SELECT repo_path, group_concat(line || CASE WHEN times > 1 THEN ' (' || times || ' times)' ELSE '' END, char(10)) AS asked
  FROM (
    SELECT repo_path, '- ' || substr(replace(replace(trim(prompt), char(13), ' '), char(10), ' '), 1, 100) AS line, count(*) AS times
    FROM asked
    GROUP BY repo_path, line
    ORDER BY min(started_at), min(id)
  )
  GROUP BY repo_path
),
changed AS (
  SELECT repo_path, count(*) AS files_changed, group_concat(path, ', ') AS files
  FROM (
    SELECT DISTINCT a.repo_path, coalesce(f.relative_path, f.path) AS path
    FROM asked a JOIN files_touched f ON f.turn_id = a.id
    WHERE f.succeeded = 1 AND f.operation IN ('create', 'write', 'edit', 'notebook_edit', 'delete')
    ORDER BY 1, 2
  )
  GROUP BY repo_path
),
committed AS (
  SELECT repo_path, group_concat(line, char(10)) AS commits
  FROM (SELECT a.repo_path, c.sha || coalesce(' ' || c.subject, '') AS line FROM commits c JOIN asked a ON a.id = c.turn_id ORDER BY c.timestamp)
  GROUP BY repo_path
),
proposed AS (
  SELECT a.repo_path, group_concat(DISTINCT coalesce(g.pr_url, '#' || g.pr_number)) AS pull_requests
  FROM git_operations g JOIN asked a ON a.id = g.turn_id
  WHERE g.kind = 'pr'
  GROUP BY a.repo_path
),
spent AS (
  SELECT a.repo_path, sum(c.cost) AS cost, sum(c.requests_unpriced) AS requests_unpriced, sum(c.requests_not_final) AS requests_not_final
  FROM (
    SELECT turn_id, sum(cost) AS cost, count(*) - count(price_id) AS requests_unpriced, count(*) - sum(output_is_final) AS requests_not_final
    FROM _costs WHERE turn_id IN (SELECT id FROM asked) GROUP BY turn_id
  ) c
  JOIN asked a ON a.id = c.turn_id
  GROUP BY a.repo_path
)
SELECT a.project, count(DISTINCT a.session_id) AS sessions, count(*) AS turns,
  w.asked,
  coalesce(f.files_changed, 0) AS files_changed, f.files, c.commits, r.pull_requests, coalesce(m.cost, CASE WHEN m.repo_path IS NULL THEN 0 END) / 1e12 AS cost_usd,
  round(sum(julianday(a.ended_at) - julianday(a.started_at)) * 24, 1) AS hours, max(a.ended_at) AS last_active_at,
  coalesce(m.requests_unpriced, 0) AS requests_unpriced, coalesce(m.requests_not_final, 0) AS requests_not_final, a.repo_path
FROM asked a
JOIN said w ON w.repo_path = a.repo_path
LEFT JOIN changed f ON f.repo_path = a.repo_path
LEFT JOIN committed c ON c.repo_path = a.repo_path
LEFT JOIN proposed r ON r.repo_path = a.repo_path
LEFT JOIN spent m ON m.repo_path = a.repo_path
GROUP BY a.repo_path
ORDER BY turns DESC, a.repo_path
