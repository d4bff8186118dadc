-- What happened on this day, by human request?
--   time (text): local time when it was asked, or when work on it continued on that day
--   project (text): name of the project
--   prompt (text, about): what was asked; without a human request, what the session or its agent began with
--   reply (text): the last thing that the model said in reply
--   tools (number): tool calls of that day
--   files (text): files that it changed on that day
--   commits (text): commits that it made on that day
--   cost_usd (money, always): cost on that day in USD, subagents included
--   minutes (number): how many minutes the agent worked on it on that day
--   minutes_estimated (number, detail): how many of these minutes are estimated, because the client did not report the time
--   title (text, about): the session's title
--   session_id (id, always): the session
--   turn_id (id, detail): the human request; NULL for the work of a session outside of human requests
--   requests_unpriced (number, detail): billed requests without a price; the cost does not include them
--   requests_not_final (number, detail): billed requests whose output count is only a lower bound
-- :day (day) = today: the day
-- filters: project=session_id session=session_id
-- example: ctxdb query day -p day 2026-09-12
-- A local day has 23 to 25 hours. The index finds three days, and local time then picks the one.
WITH chosen AS MATERIALIZED (
  SELECT date(:day, 'localtime') AS day, strftime('%Y-%m-%dT%H:%M:%fZ', :day, '-1 day') AS since, strftime('%Y-%m-%dT%H:%M:%fZ', :day, '+2 days') AS until
),
spent AS MATERIALIZED (
  SELECT c.session_id, c.turn_id, min(c.timestamp) AS first_at, max(c.timestamp) AS last_at, sum(c.cost) AS cost,
    count(*) - count(c.price_id) AS requests_unpriced, count(*) - sum(c.output_is_final) AS requests_not_final
  FROM chosen n CROSS JOIN _costs c ON c.timestamp >= n.since AND c.timestamp < n.until AND date(c.timestamp, 'localtime') = n.day
  GROUP BY c.session_id, c.turn_id
),
done AS MATERIALIZED (
  SELECT session_id, turn_id, min(at) AS at
  FROM (
    SELECT t.session_id, t.id AS turn_id, t.started_at AS at
    FROM chosen n CROSS JOIN turns t ON t.started_at >= n.since AND t.started_at < n.until AND date(t.started_at, 'localtime') = n.day
    UNION ALL SELECT session_id, turn_id, first_at FROM spent
  )
  GROUP BY session_id, turn_id
),
-- The time of a turn that is all on that day; else the gaps between the lines of its work, or between the requests
-- outside of turns, on that day, each counted as at most 60 seconds.
worked AS MATERIALIZED (
  SELECT d.session_id, d.turn_id, d.at, d.agent_ms IS NULL OR NOT d.is_whole AS is_estimated,
    CASE WHEN d.is_whole THEN d.active_ms WHEN d.turn_id IS NOT NULL THEN (
      SELECT min(coalesce(d.active_ms, 86400000), total(min(60000, max(0, (julianday(timestamp) - julianday(before)) * 86400000)))) FROM (
        SELECT m.timestamp, lag(m.timestamp) OVER (ORDER BY m.timestamp) AS before
        FROM chosen n CROSS JOIN messages m ON m.turn_id = d.turn_id AND m.timestamp >= n.since AND m.timestamp < n.until AND date(m.timestamp, 'localtime') = n.day
        WHERE m.agent_id IS NOT NULL OR m.kind IN ('assistant', 'synthetic', 'tool_result', 'command_output', 'interruption')
      )
    ) ELSE (
      SELECT sum(min(60000, max(0, (julianday(timestamp) - julianday(before)) * 86400000))) FROM (
        SELECT u.timestamp, lag(u.timestamp) OVER (ORDER BY u.timestamp) AS before
        FROM chosen n CROSS JOIN usage u ON u.session_id = d.session_id AND +u.turn_id IS NULL AND +u.timestamp >= n.since AND +u.timestamp < n.until AND date(u.timestamp, 'localtime') = n.day
      )
    ) END AS active_ms
  FROM (
    SELECT o.*, t.agent_ms, t.active_ms, date(t.started_at, 'localtime') = n.day AND date(t.ended_at, 'localtime') = n.day AS is_whole
    FROM chosen n CROSS JOIN done o LEFT JOIN turns t ON t.id = o.turn_id
  ) d
),
called AS (
  SELECT u.session_id, u.turn_id, count(*) AS tools
  FROM chosen n CROSS JOIN (SELECT DISTINCT session_id FROM done) d
  CROSS JOIN tool_uses u ON u.session_id = d.session_id AND u.started_at >= n.since AND u.started_at < n.until AND date(u.started_at, 'localtime') = n.day
  GROUP BY u.session_id, u.turn_id
),
changed AS (
  SELECT session_id, turn_id, group_concat(path, ', ') AS files
  FROM (
    SELECT DISTINCT f.session_id, f.turn_id, coalesce(f.relative_path, f.path) AS path
    FROM chosen n CROSS JOIN files_touched f ON f.timestamp >= n.since AND f.timestamp < n.until AND date(f.timestamp, 'localtime') = n.day
    WHERE f.succeeded = 1 AND f.operation IN ('create', 'write', 'edit', 'notebook_edit', 'delete')
  )
  GROUP BY session_id, turn_id
),
committed AS (
  SELECT g.session_id, g.turn_id, group_concat(g.sha, ' ') AS commits
  FROM chosen n CROSS JOIN git_operations g ON g.timestamp >= n.since AND g.timestamp < n.until AND date(g.timestamp, 'localtime') = n.day
  WHERE g.kind = 'commit'
  GROUP BY g.session_id, g.turn_id
)
SELECT time(d.at, 'localtime') AS time, p.name AS project,
  CASE WHEN d.turn_id IS NOT NULL THEN t.prompt ELSE (
    SELECT m.text FROM messages m
    WHERE m.session_id = d.session_id AND +m.turn_id IS NULL AND m.type = 'user' AND m.text IS NOT NULL
    ORDER BY m.source_file_id, m.byte_start LIMIT 1
  ) END AS prompt,
  CASE WHEN d.turn_id IS NOT NULL THEN (
    SELECT m.text FROM messages m
    WHERE m.turn_id = d.turn_id AND m.kind = 'assistant' AND m.text IS NOT NULL AND m.is_sidechain = 0
      AND trim(m.text, char(9, 10, 13, 32)) <> ''
    ORDER BY m.source_file_id DESC, m.byte_start DESC LIMIT 1
  ) ELSE (
    SELECT m.text FROM messages m
    WHERE m.session_id = d.session_id AND +m.turn_id IS NULL AND m.kind = 'assistant' AND m.is_sidechain = 0
      AND trim(m.text, char(9, 10, 13, 32)) <> ''
    ORDER BY m.source_file_id DESC, m.byte_start DESC LIMIT 1
  ) END AS reply,
  coalesce(k.tools, 0) AS tools, f.files, g.commits,
  CASE WHEN c.first_at IS NULL THEN 0.0 ELSE c.cost / 1e12 END AS cost_usd,
  round(d.active_ms / 60000.0, 1) AS minutes, CASE WHEN d.is_estimated THEN round(d.active_ms / 60000.0, 1) ELSE 0.0 END AS minutes_estimated,
  coalesce(s.title, '(untitled)') AS title, d.session_id, d.turn_id,
  coalesce(c.requests_unpriced, 0) AS requests_unpriced, coalesce(c.requests_not_final, 0) AS requests_not_final
FROM worked d
LEFT JOIN turns t ON t.id = d.turn_id
LEFT JOIN sessions s ON s.id = d.session_id
LEFT JOIN projects p ON p.id = s.project_id
LEFT JOIN spent c ON c.session_id IS d.session_id AND c.turn_id IS d.turn_id
LEFT JOIN called k ON k.session_id IS d.session_id AND k.turn_id IS d.turn_id
LEFT JOIN changed f ON f.session_id IS d.session_id AND f.turn_id IS d.turn_id
LEFT JOIN committed g ON g.session_id IS d.session_id AND g.turn_id IS d.turn_id
ORDER BY d.at, d.turn_id
