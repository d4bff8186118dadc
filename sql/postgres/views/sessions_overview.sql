-- What are the sessions: whose, in which repository, how long, which tools, errors, tokens and cost?
--   started_at: first message; the newest session is first
--   ended_at: last message
--   person: the person, as the machine's config says; perhaps a hash
--   team: the team, as the machine's config says
--   repository: owner/name of the repository, or the name of its folder; a hash at level usage
--   title: its title, if you may see it
--   turns: human requests
--   tools: tool calls, including those of subagents
--   errors: tool calls that failed; at level usage, those whose result says so
--   files_changed: files that were created, written, edited or deleted; NULL at level usage
--   lines_added: lines added to these files
--   lines_removed: lines removed
--   requests: billed requests
--   total_tokens: input, output, cache writes and cache reads together
--   cost_usd: cost in USD; NULL if no request has a price
--   active_seconds: how long Claude Code worked on its requests, partly an estimate
--   git_branch: last branch seen in it
--   version: last Claude Code version seen in it
--   is_automated: 1 if a program ran it, 0 if a person typed
--   machine: the machine whose row is shown
--   session_id: its id
SELECT s.started_at, s.ended_at, m.person, m.team, s.repository, s.title,
  coalesce(t.turns, 0) AS turns, coalesce(u.tools, 0) AS tools, coalesce(u.errors, 0) AS errors,
  f.files_changed, coalesce(f.lines_added, 0) AS lines_added, coalesce(f.lines_removed, 0) AS lines_removed,
  coalesce(r.requests, 0) AS requests, coalesce(r.total_tokens, 0) AS total_tokens,
  CASE WHEN r.requests IS NULL THEN 0 ELSE (r.cost / 1e12)::float8 END AS cost_usd,
  t.active_seconds, s.git_branch, s.version, s.is_automated, s.machine, s.session_id
FROM ctxdb.sessions s
LEFT JOIN ctxdb._machines m ON m.machine = s.machine
LEFT JOIN (
  SELECT session_id, count(*) AS turns, round(sum(active_ms) / 1000.0, 1) AS active_seconds FROM ctxdb.turns GROUP BY session_id
) t ON t.session_id = s.session_id
LEFT JOIN (
  SELECT session_id, count(*) AS tools, count(*) FILTER (WHERE status = 'error' OR status IS NULL AND is_error = 1) AS errors
  FROM ctxdb.tool_uses GROUP BY session_id
) u ON u.session_id = s.session_id
LEFT JOIN (
  SELECT session_id, count(DISTINCT path) AS files_changed, sum(lines_added) AS lines_added, sum(lines_removed) AS lines_removed
  FROM ctxdb.files_touched
  WHERE succeeded = 1 AND operation IN ('create', 'write', 'edit', 'notebook_edit', 'delete')
  GROUP BY session_id
) f ON f.session_id = s.session_id
LEFT JOIN (
  SELECT session_id, count(*) AS requests, sum(total_tokens) AS total_tokens, sum(cost) AS cost FROM ctxdb.requests GROUP BY session_id
) r ON r.session_id = s.session_id
ORDER BY s.started_at DESC, s.session_id
