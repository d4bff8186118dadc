-- When was a conversation compacted, why, and how much of it remained?
--   timestamp (time): when it happened; newest first
--   project (text): name of the project
--   kind (text): compact (the conversation became a summary) or microcompact (old tool results were dropped)
--   trigger (text): auto or manual
--   tokens_before (tokens): size of the context before, in tokens
--   tokens_after (tokens): size of the context after, in tokens, if the client reports it
--   tokens_saved (tokens): tokens_before minus tokens_after, or the number that the client reports
--   duration_ms (number): how many milliseconds it took, if the client reports it
--   summary (text): the summary that replaced the conversation
--   title (text, about): the session's title
--   session_id (id, always): the session
--   turn_id (id, detail): the human request during which it happened
--   message_id (id, detail): the message that records it
-- filters: since=timestamp project=session_id session=session_id
-- example: ctxdb query compactions --limit 10
SELECT m.timestamp, p.name AS project, CASE m.subtype WHEN 'compact_boundary' THEN 'compact' ELSE 'microcompact' END AS kind,
  json_extract(m.meta, '$.trigger') AS trigger,
  json_extract(m.meta, '$.preTokens') AS tokens_before,
  coalesce(json_extract(m.meta, '$.postTokens'), json_extract(m.meta, '$.preTokens') - json_extract(m.meta, '$.tokensSaved')) AS tokens_after,
  coalesce(json_extract(m.meta, '$.tokensSaved'), json_extract(m.meta, '$.preTokens') - json_extract(m.meta, '$.postTokens')) AS tokens_saved,
  json_extract(m.meta, '$.durationMs') AS duration_ms,
  CASE m.subtype WHEN 'compact_boundary' THEN (
    SELECT c.text FROM messages c WHERE c.parent_uuid = m.uuid AND c.kind = 'compact_summary' AND (c.session_id IS m.session_id OR length(c.uuid) = 36)
    ORDER BY c.id LIMIT 1
  ) END AS summary,
  coalesce(s.title, '(untitled)') AS title, m.session_id, m.turn_id, m.id AS message_id
FROM (
  SELECT *, coalesce(json_extract(data, '$.compactMetadata'), json_extract(data, '$.microcompactMetadata'), '{}') AS meta
  FROM messages
  WHERE kind = 'system' AND subtype IN ('compact_boundary', 'microcompact_boundary')
) m
LEFT JOIN sessions s ON s.id = m.session_id
LEFT JOIN projects p ON p.id = s.project_id
ORDER BY m.timestamp DESC, m.id DESC
