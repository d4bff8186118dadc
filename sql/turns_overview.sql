-- What was asked, what was the answer, and what did it need: tools, commands, files, tokens, cost, time?
--   started_at (time): when it was asked; newest first
--   project (text): name of the project
--   kind (text): prompt, command, shell, queued or sdk
--   prompt (text, about): what was asked
--   reply (text): the last thing that the model said in reply
--   tools (number): tool calls, including those of subagents
--   errors (number): tool calls that failed
--   commands (number): shell commands among these calls
--   files_changed (number): files that were created, written, edited or deleted
--   requests (number): billed requests, including those of subagents
--   requests_unpriced (number, detail): requests among these without a price; cost_usd does not include them
--   requests_not_final (number, detail): requests among these whose output count is only a lower bound
--   total_tokens (tokens, always): input, output, cache writes and cache reads together
--   output_tokens (tokens): output tokens
--   cost_usd (money, always): cost in USD, subagents included; NULL if no request has a price
--   seconds (seconds): from the request to the last message or call that it led to
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
    SELECT m.text FROM messages m
    WHERE m.turn_id = t.id AND m.kind = 'assistant' AND m.text IS NOT NULL AND m.is_sidechain = 0
      AND trim(m.text, char(9, 10, 13, 32)) <> ''
    ORDER BY m.source_file_id DESC, m.byte_start DESC LIMIT 1
  ) AS reply,
  (SELECT count(*) FROM tool_uses u WHERE u.turn_id = t.id) AS tools,
  (SELECT count(*) FROM tool_uses u WHERE u.turn_id = t.id AND u.status = 'error') AS errors,
  (SELECT count(*) FROM tool_uses u WHERE u.turn_id = t.id AND u.name IN ('Bash', 'PowerShell')) AS commands,
  (
    SELECT count(DISTINCT f.path) FROM files_touched f
    WHERE f.turn_id = t.id AND f.succeeded = 1 AND f.operation IN ('create', 'write', 'edit', 'notebook_edit', 'delete')
  ) AS files_changed,
  coalesce(c.requests, 0) AS requests, coalesce(c.requests_unpriced, 0) AS requests_unpriced,
  coalesce(c.requests_not_final, 0) AS requests_not_final, coalesce(c.total_tokens, 0) AS total_tokens, coalesce(c.output_tokens, 0) AS output_tokens,
  CASE WHEN c.turn_id IS NULL THEN 0.0 ELSE c.cost / 1e12 END AS cost_usd,
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
