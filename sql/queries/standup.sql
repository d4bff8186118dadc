-- What did I do since yesterday, by project?
--   project (text): name of the project; if several projects have this name, with the folders above it; the busiest is first
--   sessions (number): sessions that were active
--   turns (number): human requests
--   asked (text): what was asked, in order; what was asked several times is there once, with the count
--   files_changed (number): files that were changed
--   files (text): the names of these files
--   commits (text): the commits that were made
--   pull_requests (text): pull requests that were created or named
--   cost_usd (money, always): cost in USD of what was billed in that time; NULL if no request has a price
--   hours (number): how many hours the agent worked
--   hours_estimated (number, detail): how many of these hours are estimated, because the client did not report the time
--   last_active_at (time): the last activity
--   requests_unpriced (number, detail): billed requests without a price; the cost does not include them
--   requests_not_final (number, detail): billed requests whose output count is only a lower bound
--   repo_path (path): the folder of the project; for a worktree, the folder of its repository
-- :since (since) = yesterday: from when
-- :until (until) = now: until when
-- filters: project=turns.session_id,_costs.session_id,files_touched.session_id,git_operations.session_id,commits.session_id session=turns.session_id,_costs.session_id,files_touched.session_id,git_operations.session_id,commits.session_id
-- example: ctxdb query standup -p since 2026-10-01
-- Some work belongs to no turn, but it costs and commits.
WITH placed AS MATERIALIZED ( -- two projects can have the same name
  SELECT s.id AS session_id, p.repo_path FROM sessions s JOIN projects p ON p.id = s.project_id
),
asked AS MATERIALIZED (
  SELECT t.id, t.session_id, t.prompt, t.started_at, t.ended_at, t.agent_ms,
    min(t.active_ms, CASE WHEN t.ended_at > :until THEN (julianday(:until) - julianday(t.started_at)) * 86400000 ELSE t.active_ms END) AS active_ms, coalesce(s.repo_path, '') AS repo_path
  FROM turns t
  LEFT JOIN placed s ON s.session_id = t.session_id
  WHERE t.started_at >= :since AND t.started_at < :until
  ORDER BY t.started_at, t.id
),
spent AS MATERIALIZED (
  SELECT c.session_id, coalesce(s.repo_path, '') AS repo_path, c.cost, c.requests_unpriced, c.requests_not_final, c.first_at, c.last_at, c.turn_id, c.active_ms
  FROM (
    SELECT session_id, turn_id, min(timestamp) AS first_at, max(timestamp) AS last_at, sum(cost) AS cost,
      count(*) - count(price_id) AS requests_unpriced, count(*) - sum(output_is_final) AS requests_not_final,
      -- Outside of turns nothing reports the time: the gaps between requests, each counted as at most 60 seconds.
      sum(CASE WHEN turn_id IS NULL THEN min(60000, max(0, (julianday(timestamp) - julianday(before)) * 86400000)) END) AS active_ms
    FROM (
      SELECT *, CASE WHEN turn_id IS NULL THEN lag(timestamp) OVER (PARTITION BY session_id, turn_id ORDER BY timestamp) END AS before
      FROM _costs
      WHERE timestamp >= :since AND timestamp < :until OR timestamp IS NULL AND :since = ''
    )
    GROUP BY session_id, turn_id
  ) c
  LEFT JOIN placed s ON s.session_id = c.session_id
),
said AS (
  SELECT repo_path, group_concat(line || CASE WHEN times > 1 THEN ' (' || times || ' times)' ELSE '' END, char(10)) AS asked
  FROM (
    SELECT repo_path, '- ' || CASE WHEN length(text) <= 100 THEN text WHEN space > 50 THEN rtrim(substr(text, 1, space)) || '…' ELSE substr(text, 1, 99) || '…' END AS line, count(*) AS times
    FROM ( -- space: where the last space of the first 100 characters is
      SELECT *, length(rtrim(substr(text, 1, 100), replace(substr(text, 1, 100), ' ', ''))) AS space
      FROM (SELECT *, replace(replace(trim(prompt), char(13), ' '), char(10), ' ') AS text FROM asked)
    )
    GROUP BY repo_path, line
    ORDER BY min(started_at), min(id)
  )
  GROUP BY repo_path
),
changed AS (
  SELECT repo_path, count(*) AS files_changed, group_concat(path, ', ') AS files
  FROM (
    SELECT DISTINCT coalesce(s.repo_path, '') AS repo_path, coalesce(f.relative_path, f.path) AS path
    FROM files_touched f LEFT JOIN placed s ON s.session_id = f.session_id
    WHERE f.timestamp >= :since AND f.timestamp < :until
      AND f.succeeded = 1 AND f.operation IN ('create', 'write', 'edit', 'notebook_edit', 'delete')
    ORDER BY 1, 2
  )
  GROUP BY repo_path
),
committed AS (
  SELECT repo_path, group_concat(line, char(10)) AS commits
  FROM (
    SELECT coalesce(s.repo_path, '') AS repo_path, c.sha || coalesce(' ' || c.subject, '') AS line
    FROM commits c LEFT JOIN placed s ON s.session_id = c.session_id
    WHERE c.timestamp >= :since AND c.timestamp < :until
    ORDER BY c.timestamp
  )
  GROUP BY repo_path
),
proposed AS (
  SELECT repo_path, group_concat(named, ', ') AS pull_requests
  FROM (
    SELECT DISTINCT coalesce(s.repo_path, '') AS repo_path, coalesce(g.pr_url, '#' || g.pr_number) AS named
    FROM git_operations g LEFT JOIN placed s ON s.session_id = g.session_id
    WHERE g.kind = 'pr' AND g.timestamp >= :since AND g.timestamp < :until
    ORDER BY 1, 2
  )
  GROUP BY repo_path
),
worked AS (
  SELECT repo_path, count(DISTINCT session_id) AS sessions, sum(turns) AS turns, round(total(active_ms) / 3600000, 1) AS hours,
    round(total(active_ms) FILTER (WHERE is_estimated) / 3600000, 1) AS hours_estimated, max(last_at) AS last_active_at,
    count(first_at) AS billed, sum(cost) AS cost, sum(requests_unpriced) AS requests_unpriced, sum(requests_not_final) AS requests_not_final
  FROM (
    SELECT repo_path, session_id, 1 AS turns, active_ms, agent_ms IS NULL AS is_estimated, ended_at AS last_at,
      NULL AS first_at, NULL AS cost, 0 AS requests_unpriced, 0 AS requests_not_final
    FROM asked
    UNION ALL
    SELECT repo_path, session_id, 0, active_ms, 1, last_at,
      first_at, cost, requests_unpriced, requests_not_final
    FROM spent
  )
  GROUP BY repo_path
)
SELECT coalesce(n.project, '') AS project, a.sessions, a.turns, w.asked,
  coalesce(f.files_changed, 0) AS files_changed, f.files, c.commits, r.pull_requests, CASE WHEN a.billed = 0 THEN 0.0 ELSE a.cost / 1e12 END AS cost_usd,
  a.hours, a.hours_estimated, a.last_active_at, a.requests_unpriced, a.requests_not_final, a.repo_path
FROM worked a
LEFT JOIN _project_names n ON n.repo_path = a.repo_path
LEFT JOIN said w ON w.repo_path = a.repo_path
LEFT JOIN changed f ON f.repo_path = a.repo_path
LEFT JOIN committed c ON c.repo_path = a.repo_path
LEFT JOIN proposed r ON r.repo_path = a.repo_path
ORDER BY a.turns DESC, a.repo_path
