-- What was asked, what was the answer, and what did it need: tools, commands, files, agents, tokens, cost, time?
--   started_at (time): when it was asked; newest first
--   project (text): name of the project
--   kind (text): prompt, command, shell, queued, sdk or plan
--   prompt (text, about): what was asked
--   reply (text, detail): all that the model said in reply, in order; a blank line separates its parts; what agents said is in agents
--   last_reply (text): the last thing that the model said in reply
--   tools (number): tool calls, including those of subagents
--   tools_used (text): the tools that were called, and how often: Bash 5, Edit 3
--   errors (number): tool calls that failed
--   commands_run (number): shell commands among these calls, without those that were refused
--   commands (text, detail): these commands, in order, as a JSON list
--   files_changed (number): files that were created, written, edited or deleted
--   files (text, detail): these files, as a JSON list of objects with path, lines_added and lines_removed
--   agents_used (text): the types of the agents that were started, and how many: Explore 2
--   agents (text, detail): these agents, as a JSON list of objects with agent_type, task, status and answer
--   requests (number): billed requests, including those of subagents
--   requests_unpriced (number, detail): requests among these without a price; cost_usd does not include them
--   requests_not_final (number, detail): requests among these whose output count is only a lower bound
--   total_tokens (tokens, always): input, output, cache writes and cache reads together
--   output_tokens (tokens): output tokens
--   cost_usd (money, always): cost in USD, subagents included; NULL if no request has a price
--   active_seconds (seconds): how long the agent worked on it; an estimate if agent_ms is NULL, because the client did not report the time
--   agent_ms (number, detail): milliseconds that the client reports for it; NULL if it does not
--   seconds (seconds, detail): from the human request to the last message or call that it led to, waiting included
--   ended_at (time): when that last message or call was
--   ordinal (id, detail): number of the turn in its session, from 1
--   session_id (id, always): the session
--   turn_id (id, detail): the turn
-- one row per: turns ORDER BY started_at DESC, id DESC
-- filters: since=turns.started_at project=turns.session_id session=turns.session_id
-- period: 30d
-- example: ctxdb query turns_overview --since 7d --sort -cost_usd
SELECT t.started_at, p.name AS project, t.kind, t.prompt,
  (
    SELECT group_concat(text, char(10, 10)) FROM (
      SELECT trim(m.text, char(9, 10, 13, 32)) AS text FROM messages m
      WHERE m.turn_id = t.id AND m.kind = 'assistant' AND m.text IS NOT NULL AND m.is_sidechain = 0
        AND trim(m.text, char(9, 10, 13, 32)) <> ''
      ORDER BY m.source_file_id, m.byte_start
    )
  ) AS reply,
  (
    SELECT m.text FROM messages m
    WHERE m.turn_id = t.id AND m.kind = 'assistant' AND m.text IS NOT NULL AND m.is_sidechain = 0
      AND trim(m.text, char(9, 10, 13, 32)) <> ''
    ORDER BY m.source_file_id DESC, m.byte_start DESC LIMIT 1
  ) AS last_reply,
  (SELECT count(*) FROM tool_uses u WHERE u.turn_id = t.id) AS tools,
  (
    SELECT group_concat(coalesce(name, 'unknown') || ' ' || calls, ', ')
    FROM (SELECT u.name, count(*) AS calls FROM tool_uses u WHERE u.turn_id = t.id GROUP BY u.name ORDER BY 2 DESC, 1)
  ) AS tools_used,
  (SELECT count(*) FROM tool_uses u WHERE u.turn_id = t.id AND u.status = 'error') AS errors,
  (SELECT count(*) FROM tool_uses u WHERE u.turn_id = t.id AND u.name IN ('Bash', 'PowerShell') AND u.status <> 'rejected') AS commands_run,
  (
    SELECT json_group_array(command) FROM (
      SELECT coalesce(CASE WHEN json_valid(u.input) THEN json_extract(u.input, '$.command') END, u.target) AS command
      FROM tool_uses u
      WHERE u.turn_id = t.id AND u.name IN ('Bash', 'PowerShell') AND u.status <> 'rejected'
      ORDER BY u.started_at, u.id
    )
    WHERE command IS NOT NULL
  ) AS commands,
  (
    SELECT count(DISTINCT f.path) FROM files_touched f
    WHERE f.turn_id = t.id AND f.succeeded = 1 AND f.operation IN ('create', 'write', 'edit', 'notebook_edit', 'delete')
  ) AS files_changed,
  (
    SELECT json_group_array(json_object('path', path, 'lines_added', lines_added, 'lines_removed', lines_removed)) FROM (
      SELECT coalesce(max(f.relative_path), f.path) AS path, coalesce(sum(f.lines_added), 0) AS lines_added, coalesce(sum(f.lines_removed), 0) AS lines_removed
      FROM files_touched f
      WHERE f.turn_id = t.id AND f.succeeded = 1 AND f.operation IN ('create', 'write', 'edit', 'notebook_edit', 'delete')
      GROUP BY f.path
      ORDER BY 1
    )
  ) AS files,
  (
    SELECT group_concat(type || ' ' || runs, ', ') FROM (
      SELECT coalesce(a.agent_type, a.kind) AS type, count(*) AS runs FROM agents a
      WHERE a.turn_id = t.id AND a.kind NOT IN ('compact', 'prompt_suggestion', 'warmup')
      GROUP BY 1 ORDER BY 2 DESC, 1
    )
  ) AS agents_used,
  (
    SELECT json_group_array(json_object('agent_type', type, 'task', task, 'status', status, 'answer', answer)) FROM (
      SELECT coalesce(a.agent_type, a.kind) AS type, a.description AS task, a.status, (
          SELECT r.answer FROM _agent_texts r WHERE r.id = a.id
        ) AS answer
      FROM agents a
      WHERE a.turn_id = t.id AND a.kind NOT IN ('compact', 'prompt_suggestion', 'warmup')
      ORDER BY a.started_at, a.id
    )
  ) AS agents,
  coalesce(c.requests, 0) AS requests, coalesce(c.requests_unpriced, 0) AS requests_unpriced,
  coalesce(c.requests_not_final, 0) AS requests_not_final, coalesce(c.total_tokens, 0) AS total_tokens, coalesce(c.output_tokens, 0) AS output_tokens,
  CASE WHEN c.turn_id IS NULL THEN 0.0 ELSE c.cost / 1e12 END AS cost_usd,
  round(t.active_ms / 1000.0, 1) AS active_seconds, t.agent_ms,
  round((julianday(t.ended_at) - julianday(t.started_at)) * 86400, 1) AS seconds, t.ended_at, t.ordinal, t.session_id, t.id AS turn_id
FROM turns t
LEFT JOIN sessions s ON s.id = t.session_id
LEFT JOIN projects p ON p.id = s.project_id
LEFT JOIN (
  SELECT turn_id, count(*) AS requests, count(*) - count(price_id) AS requests_unpriced, count(*) - sum(output_is_final) AS requests_not_final,
    sum(input_tokens + output_tokens + cache_write_5m_tokens + cache_write_1h_tokens + cache_read_tokens) AS total_tokens,
    sum(output_tokens) AS output_tokens, sum(cost) AS cost
  FROM _costs
  WHERE turn_id IN (SELECT id FROM turns) -- so that with a period, only the turns of that period are read
  GROUP BY turn_id
) c ON c.turn_id = t.id
ORDER BY t.started_at DESC, t.id DESC
