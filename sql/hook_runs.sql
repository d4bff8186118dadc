-- Which hooks ran, how long did they take, and what did they complain about?
--   timestamp (time): when it ended; newest first
--   project (text): name of the project
--   event (text): what the hook waited for: PreToolUse, PostToolUse, SessionStart, Stop ...
--   hook (text, detail): the event and what it matched, such as PostToolUse:Edit
--   command (text, about): the command that ran; NULL where the line does not say it
--   duration_ms (number): milliseconds it took, where the line says so
--   exit_code (id): its exit code, where the line says so
--   blocked (number): 1 if it kept the agent from going on
--   error (text, outcome): what it complained about. A summary of several Stop hooks does not say which of them did: each has the errors of all
--   session_id (id, always): the session
--   turn_id (id, detail): the human request
--   tool_use_id (id, detail): the call that the hook belongs to, or the id of the stop
-- filters: since=timestamp project=session_id session=session_id
-- period: 30d
-- example: ctxdb query hook_runs --limit 10
-- One row for each tool_use_id and command: a Stop hook can have a line of its own and be in the summary. From attachments
-- and stop_hook_summary lines. The progress of hooks (hook_progress lines) is not stored, so a hook that left only those is not here.
SELECT r.timestamp, p.name AS project, r.event, r.hook, r.command, r.duration_ms, r.exit_code, r.blocked, r.error, r.session_id, r.turn_id, r.tool_use_id
FROM (
  SELECT min(timestamp) AS timestamp, max(event) AS event, max(hook) AS hook, command, max(duration_ms) AS duration_ms, max(exit_code) AS exit_code,
    max(blocked) AS blocked, max(error) AS error, session_id, max(turn_id) AS turn_id, tool_use_id, min(message_id) AS message_id
  FROM (
    SELECT m.timestamp, json_extract(m.data, '$.hookEvent') AS event, json_extract(m.data, '$.hookName') AS hook, json_extract(m.data, '$.command') AS command,
      json_extract(m.data, '$.durationMs') AS duration_ms, json_extract(m.data, '$.exitCode') AS exit_code, m.subtype = 'hook_blocking_error' AS blocked,
      iif(m.subtype = 'hook_success', NULL, m.text) AS error, m.session_id, m.turn_id, json_extract(m.data, '$.toolUseID') AS tool_use_id, m.id AS message_id
    FROM messages m
    WHERE (m.subtype = 'hook_success' OR m.subtype = 'hook_blocking_error' OR m.subtype = 'hook_non_blocking_error' OR m.subtype = 'hook_error_during_execution' OR m.subtype = 'hook_cancelled' OR m.subtype = 'stop_hook_summary')
      AND m.type = 'attachment' AND json_valid(m.data)
    UNION ALL
    SELECT m.timestamp, 'Stop', 'Stop', json_extract(i.value, '$.command'), json_extract(i.value, '$.durationMs'), NULL, json_extract(m.data, '$.preventedContinuation') IS 1,
      (SELECT coalesce(group_concat(iif(e.type = 'text', e.value, NULL), char(10)), iif(count(*), m.text, NULL)) FROM json_each(m.data, '$.hookErrors') e),
      m.session_id, m.turn_id, json_extract(m.data, '$.toolUseID'), m.id
    FROM messages m, json_each(CASE WHEN json_valid(m.data) THEN m.data ELSE '{}' END, '$.hookInfos') i
    WHERE (m.subtype = 'hook_success' OR m.subtype = 'hook_blocking_error' OR m.subtype = 'hook_non_blocking_error' OR m.subtype = 'hook_error_during_execution' OR m.subtype = 'hook_cancelled' OR m.subtype = 'stop_hook_summary')
      AND m.type = 'system' AND i.type = 'object'
  )
  GROUP BY session_id, coalesce(tool_use_id, message_id), coalesce(command, message_id)
) r
LEFT JOIN sessions s ON s.id = r.session_id
LEFT JOIN projects p ON p.id = s.project_id
ORDER BY r.timestamp DESC, r.message_id DESC, r.command
