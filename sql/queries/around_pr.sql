-- What went into this pull request: each request of its sessions, with reply, files, commits and cost?
--   started_at: when it was asked
--   prompt: what was asked
--   reply: the last thing the model said to it
--   files_changed: files that it changed
--   commits: commits that it made
--   cost_usd: its cost in USD, subagents included
--   seconds: how long it took
--   title: the session's title
--   session_id: the session
--   turn_id: the request
--   requests_unpriced: requests without a price: not in the cost
--   requests_not_final: requests whose output count is a lower bound
-- :pr: number or address of the pull request
-- filters: since=started_at project=session_id session=session_id
-- example: ctxdb query around_pr -p pr 58
SELECT t.started_at, t.prompt, t.reply, t.files_changed,
  (SELECT group_concat(g.sha, ' ') FROM git_operations g WHERE g.turn_id = t.turn_id AND g.kind = 'commit') AS commits,
  t.cost_usd, t.seconds, s.title, t.session_id, t.turn_id, t.requests_unpriced, t.requests_not_final
FROM turns_overview t
JOIN sessions s ON s.id = t.session_id
WHERE t.session_id IN (
  SELECT g.session_id FROM git_operations g WHERE g.kind = 'pr' AND (g.pr_number = CAST(ltrim(:pr, '#') AS INTEGER) OR g.pr_url = rtrim(:pr, '/'))
)
ORDER BY t.started_at, t.turn_id
