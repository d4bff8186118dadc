-- What happened on this day, request by request?
--   time: local time
--   project: name of the project
--   prompt: what was asked
--   reply: the last thing the model said to it
--   tools: tool calls
--   files: the files that it changed
--   commits: the commits that it made
--   cost_usd: cost in USD, subagents included
--   minutes: how long it took
--   title: the session's title
--   session_id: the session
--   turn_id: the request
--   requests_unpriced: requests without a price: not in the cost
--   requests_not_final: requests whose output count is a lower bound
-- :day (time) = today: the day
-- filters: project=session_id session=session_id
-- example: ctxdb query day -p day 2026-09-12
SELECT time(t.started_at, 'localtime') AS time, p.name AS project, t.prompt,
  (
    SELECT m.text FROM messages m
    WHERE m.turn_id = t.id AND m.kind = 'assistant' AND m.text IS NOT NULL AND m.is_sidechain = 0
    ORDER BY m.source_file_id DESC, m.byte_start DESC LIMIT 1
  ) AS reply,
  (SELECT count(*) FROM tool_uses u WHERE u.turn_id = t.id) AS tools,
  (
    SELECT group_concat(path, ', ') FROM (
      SELECT DISTINCT coalesce(f.relative_path, f.path) AS path FROM files_touched f
      WHERE f.turn_id = t.id AND f.succeeded = 1 AND f.operation IN ('create', 'write', 'edit', 'notebook_edit', 'delete')
    )
  ) AS files,
  (SELECT group_concat(g.sha, ' ') FROM git_operations g WHERE g.turn_id = t.id AND g.kind = 'commit') AS commits,
  coalesce(c.cost, CASE WHEN c.turn_id IS NULL THEN 0 END) / 1e12 AS cost_usd,
  round((julianday(t.ended_at) - julianday(t.started_at)) * 1440, 1) AS minutes, s.title, t.session_id, t.id AS turn_id,
  coalesce(c.requests_unpriced, 0) AS requests_unpriced, coalesce(c.requests_not_final, 0) AS requests_not_final
FROM turns t
LEFT JOIN sessions s ON s.id = t.session_id
LEFT JOIN projects p ON p.id = s.project_id
LEFT JOIN (
  SELECT turn_id, sum(cost) AS cost, count(*) - count(price_id) AS requests_unpriced, count(*) - sum(output_is_final) AS requests_not_final FROM _costs
  WHERE turn_id IN (
    SELECT id FROM turns WHERE started_at >= :day AND started_at < strftime('%Y-%m-%dT%H:%M:%fZ', :day, 'localtime', '+1 day', 'utc')
  )
  GROUP BY turn_id
) c ON c.turn_id = t.id
WHERE t.started_at >= :day AND t.started_at < strftime('%Y-%m-%dT%H:%M:%fZ', :day, 'localtime', '+1 day', 'utc')
ORDER BY t.started_at, t.id
