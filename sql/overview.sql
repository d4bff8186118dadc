-- How much is in the database, since when, and what did it cost?
--   first_at (time): first message
--   last_at (time): last message
--   days_active (number): local days with a billed request or a human request
--   projects (number): folders in which sessions began
--   sessions (number): sessions
--   turns (number): human requests
--   messages (number): entries of conversations, each counted once
--   tools (number): tool calls
--   errors (number): tool calls that failed
--   files_changed (number): files that were created, written, edited or deleted
--   commits (number): commits made
--   subagents (number): agents that sessions started; compaction runs, warm-ups and suggestions do not count
--   requests (number): billed requests
--   requests_unpriced (number, detail): requests among these without a price; cost_usd does not include them
--   requests_not_final (number, detail): requests among these whose output count is only a lower bound
--   input_tokens (tokens): input tokens that were neither written to the cache nor read from it
--   output_tokens (tokens): output tokens, thinking included
--   cache_write_tokens (tokens): tokens written to the cache
--   cache_read_tokens (tokens): tokens read from the cache
--   total_tokens (tokens, always): input, output, cache writes and cache reads together
--   cost_usd (money, always): cost in USD; NULL if no request has a price
--   models (text): the models that answered
--   transcripts (number): transcript files
--   transcript_bytes (bytes): size of all transcript files
--   sessions_deleted (number): sessions whose transcript no longer exists; their rows are kept
--   bad_lines (number): lines that could not be read
-- example: ctxdb query overview
SELECT (SELECT min(started_at) FROM sessions) AS first_at, (SELECT max(ended_at) FROM sessions) AS last_at,
  (
    SELECT count(DISTINCT date(at, 'localtime')) FROM (SELECT started_at AS at FROM turns UNION ALL SELECT timestamp FROM usage)
  ) AS days_active,
  (SELECT count(*) FROM projects) AS projects, (SELECT count(*) FROM sessions) AS sessions, (SELECT count(*) FROM turns) AS turns,
  (SELECT count(*) FROM messages) AS messages, (SELECT count(*) FROM tool_uses) AS tools,
  (SELECT count(*) FROM tool_uses WHERE status = 'error' AND status <> 'ok') AS errors,
  (
    SELECT count(DISTINCT path) FROM files_touched
    WHERE succeeded = 1 AND operation IN ('create', 'write', 'edit', 'notebook_edit', 'delete')
  ) AS files_changed,
  (SELECT count(*) FROM git_operations WHERE kind = 'commit') AS commits,
  (SELECT count(*) FROM agents WHERE kind NOT IN ('compact', 'prompt_suggestion', 'warmup')) AS subagents,
  c.requests, c.requests_unpriced, coalesce(c.requests_not_final, 0) AS requests_not_final,
  coalesce(c.input_tokens, 0) AS input_tokens, coalesce(c.output_tokens, 0) AS output_tokens,
  coalesce(c.cache_write_tokens, 0) AS cache_write_tokens, coalesce(c.cache_read_tokens, 0) AS cache_read_tokens,
  coalesce(c.input_tokens + c.output_tokens + c.cache_write_tokens + c.cache_read_tokens, 0) AS total_tokens,
  CASE WHEN c.requests = 0 THEN 0.0 ELSE c.cost / 1e12 END AS cost_usd,
  (SELECT group_concat(model, ', ') FROM (SELECT DISTINCT model FROM usage ORDER BY model)) AS models,
  (SELECT count(*) FROM source_files) AS transcripts, (SELECT coalesce(sum(size), 0) FROM source_files) AS transcript_bytes,
  (SELECT count(*) FROM sessions WHERE source_deleted_at IS NOT NULL) AS sessions_deleted,
  (SELECT coalesce(sum(bad_lines), 0) FROM source_files) AS bad_lines
FROM (
  SELECT count(*) AS requests, count(*) - count(price_id) AS requests_unpriced, count(*) - sum(output_is_final) AS requests_not_final,
    sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens, sum(cache_write_5m_tokens + cache_write_1h_tokens) AS cache_write_tokens,
    sum(cache_read_tokens) AS cache_read_tokens, sum(cost) AS cost
  FROM _costs
) c
