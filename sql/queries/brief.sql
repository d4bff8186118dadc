-- What was done for each human request: what was asked, all that the model said, tools, commands, files and agents?
--   started_at (time): when it was asked
--   project (text): name of the project
--   title (text): the title of the session
--   kind (text): prompt, command, shell, queued, sdk or plan
--   prompt (text, about): what was asked
--   reply (text, outcome): all that the model said in reply, in order
--   tools_used (text): the tools that were called, and how often
--   commands (text): shell commands without those that were refused, in order, as a JSON list
--   files (text): files that were changed, as a JSON list of objects with path, lines_added and lines_removed
--   agents (text): agents that were started, as a JSON list of objects with agent_type, task, status and answer
--   commits (text): commits that were made
--   active_seconds (seconds): how long the agent worked on it; an estimate if agent_ms is NULL
--   agent_ms (number, detail): milliseconds that the client reports for it; NULL if it does not
--   cost_usd (money, always): cost in USD, subagents included; NULL if no request has a price
--   requests_unpriced (number, detail): billed requests without a price; the cost does not include them
--   requests_not_final (number, detail): billed requests whose output count is only a lower bound
--   ordinal (id, detail): number of the turn in its session, from 1
--   session_id (id, always): the session
--   turn_id (id, detail): the turn
-- :since (since) = today: from when
-- filters: until=turns.started_at project=turns.session_id human=turns.session_id session=turns.session_id
-- example: ctxdb query brief -p since 2025-01-01 --limit 5
WITH chosen AS (SELECT id FROM turns WHERE started_at >= :since)
SELECT t.started_at, t.project, coalesce(s.title, '(untitled)') AS title, t.kind, t.prompt, t.reply, t.tools_used, t.commands, t.files, t.agents,
  (
    SELECT group_concat(sha, ' ') FROM (
      SELECT g.sha FROM git_operations g WHERE g.turn_id = t.turn_id AND g.kind = 'commit' ORDER BY g.timestamp, g.id
    )
  ) AS commits,
  t.active_seconds, t.agent_ms, t.cost_usd, t.requests_unpriced, t.requests_not_final, t.ordinal, t.session_id, t.turn_id
FROM turns_overview t
LEFT JOIN sessions s ON s.id = t.session_id
WHERE t.turn_id IN (SELECT id FROM chosen)
ORDER BY t.started_at, t.turn_id
