-- What went into this pull request: each human request of its sessions, with reply, files, commits and cost?
--   started_at (time): when it was asked
--   prompt (text, about): what was asked
--   reply (text): the last thing that the model said in reply
--   files_changed (number): files that this human request changed
--   commits (text): commits that it made
--   cost_usd (money, always): cost in USD, subagents included
--   active_seconds (seconds): how long the agent worked on it; an estimate if the client did not report the time
--   title (text, about): the session's title
--   session_id (id, always): the session
--   turn_id (id, detail): the human request
--   requests_unpriced (number, detail): billed requests without a price; the cost does not include them
--   requests_not_final (number, detail): billed requests whose output count is only a lower bound
-- :pr: number or URL of the pull request
-- filters: since=started_at project=session_id session=session_id
-- example: ctxdb query around_pr -p pr 58
SELECT t.started_at, t.prompt, t.last_reply AS reply, t.files_changed,
  (SELECT group_concat(g.sha, ' ') FROM git_operations g WHERE g.turn_id = t.turn_id AND g.kind = 'commit') AS commits,
  t.cost_usd, t.active_seconds, coalesce(s.title, '(untitled)') AS title, t.session_id, t.turn_id, t.requests_unpriced, t.requests_not_final
FROM turns_overview t
JOIN sessions s ON s.id = t.session_id
WHERE t.session_id IN (
  SELECT g.session_id FROM git_operations g WHERE g.kind = 'pr' AND (g.pr_number = CAST(ltrim(:pr, '#') AS INTEGER) OR g.pr_url = rtrim(:pr, '/'))
)
ORDER BY t.started_at, t.turn_id
