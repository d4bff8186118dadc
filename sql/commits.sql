-- Which commits were made, what led to them, which files changed, and what did the turn cost?
--   timestamp (time): when it happened; newest first
--   project (text): name of the project
--   sha (text, always): the commit, as git or the client writes it
--   branch (text): the branch, if it is known
--   subject (text, about): the first line of the commit message, if git printed it
--   prompt (text, outcome): the human request that led to it
--   files_changed (number): files that were changed in this turn since its last commit; without a turn, files that the session changed outside of turns
--   files (text): the paths of these files
--   cost_usd (money, always): cost of the whole turn in USD, or of the session's work outside of turns; all commits of a turn have the same cost
--   turn_commits (number): how many commits the turn made
--   requests (number): billed requests of the turn
--   requests_unpriced (number, detail): requests among these without a price; cost_usd does not include them
--   requests_not_final (number, detail): requests among these whose output count is only a lower bound
--   total_tokens (tokens): tokens of the turn
--   session_id (id, always): the session
--   turn_id (id, detail): the turn
--   tool_use_id (id, detail): the call that made it
-- rows share requests: the commits of one turn have the requests of that turn in common
-- filters: since=timestamp project=session_id session=session_id
-- example: ctxdb query commits --limit 10
WITH made AS (
  SELECT g.id, g.timestamp, g.sha, coalesce(g.branch, m.git_branch) AS branch, g.subject, g.session_id, g.turn_id, u.tool_use_id,
    -- An amended commit replaces the commit before it.
    lag(g.timestamp, CASE WHEN u.input LIKE '%--amend%' THEN 2 ELSE 1 END, '')
      OVER (PARTITION BY g.session_id, g.turn_id ORDER BY g.timestamp, g.id) AS last_commit_at,
    count(*) OVER (PARTITION BY g.session_id, g.turn_id) AS turn_commits
  FROM git_operations g
  LEFT JOIN tool_uses u ON u.id = g.tool_id
  LEFT JOIN messages m ON m.id = u.message_id
  WHERE g.kind = 'commit'
)
SELECT g.timestamp, p.name AS project, g.sha, g.branch, g.subject,
  t.prompt,
  (
    SELECT count(DISTINCT f.path) FROM files_touched f
    WHERE (f.turn_id = g.turn_id OR g.turn_id IS NULL AND f.session_id = g.session_id AND f.turn_id IS NULL) AND f.succeeded = 1 AND f.operation IN ('create', 'write', 'edit', 'notebook_edit', 'delete')
      AND f.timestamp > g.last_commit_at AND f.timestamp <= g.timestamp
  ) AS files_changed,
  (
    SELECT group_concat(path, ', ') FROM (
      SELECT DISTINCT coalesce(f.relative_path, f.path) AS path FROM files_touched f
      WHERE (f.turn_id = g.turn_id OR g.turn_id IS NULL AND f.session_id = g.session_id AND f.turn_id IS NULL) AND f.succeeded = 1 AND f.operation IN ('create', 'write', 'edit', 'notebook_edit', 'delete')
        AND f.timestamp > g.last_commit_at AND f.timestamp <= g.timestamp
      ORDER BY 1
    )
  ) AS files,
  CASE WHEN c.requests IS NULL THEN 0.0 ELSE c.cost / 1e12 END AS cost_usd, g.turn_commits,
  coalesce(c.requests, 0) AS requests, coalesce(c.requests_unpriced, 0) AS requests_unpriced,
  coalesce(c.requests_not_final, 0) AS requests_not_final, coalesce(c.total_tokens, 0) AS total_tokens,
  g.session_id, g.turn_id, g.tool_use_id
FROM made g
LEFT JOIN sessions s ON s.id = g.session_id
LEFT JOIN projects p ON p.id = s.project_id
LEFT JOIN turns t ON t.id = g.turn_id
LEFT JOIN (
  SELECT coalesce(turn_id, session_id) AS unit, count(*) AS requests, count(*) - count(price_id) AS requests_unpriced, count(*) - sum(output_is_final) AS requests_not_final,
    sum(input_tokens + output_tokens + cache_write_5m_tokens + cache_write_1h_tokens + cache_read_tokens) AS total_tokens, sum(cost) AS cost
  FROM _costs
  WHERE turn_id IN (SELECT o.turn_id FROM git_operations o WHERE o.kind = 'commit')
    OR turn_id IS NULL AND session_id IN (SELECT o.session_id FROM git_operations o WHERE o.kind = 'commit' AND o.turn_id IS NULL)
  GROUP BY 1
) c ON c.unit = coalesce(g.turn_id, g.session_id)
ORDER BY g.timestamp DESC, g.id DESC
