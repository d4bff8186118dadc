-- Which hooks ran, how long did they take, and what did they complain about?
--   timestamp (time): when it ended; newest first
--   project (text): name of the project
--   event (text): what the hook waited for: PreToolUse, PostToolUse, SessionStart, Stop ...
--   hook (text, detail): the event and what it matched, such as PostToolUse:Edit
--   command (text, about): the command that ran; NULL where the line does not say it
--   duration_ms (number): milliseconds it took, where the line says so
--   exit_code (id): its exit code, where the line says so
--   blocked (number): 1 if it kept the agent from going on
--   error (text, outcome): what it complained about. A summary of several Stop hooks does not say which of them failed: each row has all errors
--   session_id (id, always): the session
--   turn_id (id, detail): the human request
--   tool_use_id (id, detail): the call that the hook belongs to, or the id of the stop
-- filters: since=timestamp project=session_id session=session_id
-- period: 30d
-- example: ctxdb query hook_runs --limit 10
-- One row for each tool_use_id and command, from attachments and stop_hook_summary lines. A Stop hook can have a line of its
-- own and be in the summary too. Then its own line counts, and the summary adds what only it says. The progress of hooks
-- (hook_progress lines) is not stored, so a hook that left only those is not here.
SELECT r.timestamp, p.name AS project, r.event, r.hook, r.command, r.duration_ms, r.exit_code, r.blocked, r.error, r.session_id, r.turn_id, r.tool_use_id
FROM (
  SELECT m.timestamp, iif(m.type = 'system', 'Stop', json_extract(m.data, '$.hookEvent')) AS event, iif(m.type = 'system', 'Stop', json_extract(m.data, '$.hookName')) AS hook,
    json_extract(i.value, '$.command') AS command, json_extract(i.value, '$.durationMs') AS duration_ms, json_extract(m.data, '$.exitCode') AS exit_code,
    CASE WHEN m.type = 'system' THEN json_extract(m.data, '$.preventedContinuation') IS 1
      WHEN m.subtype = 'hook_blocking_error' THEN 1
      ELSE EXISTS (
        SELECT 1 FROM messages o WHERE CASE WHEN json_valid(o.data) THEN json_extract(o.data, '$.toolUseID') END = json_extract(m.data, '$.toolUseID') AND (o.subtype = 'hook_success' OR o.subtype = 'hook_blocking_error' OR o.subtype = 'hook_non_blocking_error' OR o.subtype = 'hook_error_during_execution' OR o.subtype = 'hook_cancelled' OR o.subtype = 'stop_hook_summary') AND o.session_id IS m.session_id AND o.type = 'system' AND json_extract(o.data, '$.preventedContinuation') IS 1
      ) END AS blocked,
    CASE WHEN m.type = 'system' THEN
        (SELECT coalesce(group_concat(iif(e.type = 'text', e.value, NULL), char(10)), iif(count(*), m.text, NULL)) FROM json_each(m.data, '$.hookErrors') e)
      WHEN m.subtype <> 'hook_success' THEN m.text
      ELSE (
        SELECT group_concat(iif(e.type = 'text', e.value, o.text), char(10)) FROM messages o, json_each(o.data, '$.hookErrors') e
        WHERE CASE WHEN json_valid(o.data) THEN json_extract(o.data, '$.toolUseID') END = json_extract(m.data, '$.toolUseID') AND (o.subtype = 'hook_success' OR o.subtype = 'hook_blocking_error' OR o.subtype = 'hook_non_blocking_error' OR o.subtype = 'hook_error_during_execution' OR o.subtype = 'hook_cancelled' OR o.subtype = 'stop_hook_summary') AND o.session_id IS m.session_id AND o.type = 'system'
      ) END AS error,
    m.session_id, m.turn_id, json_extract(m.data, '$.toolUseID') AS tool_use_id, m.id AS message_id
  FROM messages m, json_each(CASE WHEN NOT json_valid(m.data) THEN '[]' WHEN m.type = 'system' THEN coalesce(json_extract(m.data, '$.hookInfos'), '[]')
    ELSE json_array(json_object('command', json_extract(m.data, '$.command'), 'durationMs', json_extract(m.data, '$.durationMs'))) END) i
  WHERE (m.subtype = 'hook_success' OR m.subtype = 'hook_blocking_error' OR m.subtype = 'hook_non_blocking_error' OR m.subtype = 'hook_error_during_execution' OR m.subtype = 'hook_cancelled' OR m.subtype = 'stop_hook_summary') AND (m.type = 'attachment' OR m.type = 'system' AND i.type = 'object')
    -- the first line that tells of the run: its own before the summary's
    AND NOT EXISTS (
      SELECT 1 FROM messages o WHERE CASE WHEN json_valid(o.data) THEN json_extract(o.data, '$.toolUseID') END = json_extract(m.data, '$.toolUseID') AND (o.subtype = 'hook_success' OR o.subtype = 'hook_blocking_error' OR o.subtype = 'hook_non_blocking_error' OR o.subtype = 'hook_error_during_execution' OR o.subtype = 'hook_cancelled' OR o.subtype = 'stop_hook_summary') AND o.session_id IS m.session_id AND o.type = 'attachment' AND json_extract(o.data, '$.command') = json_extract(i.value, '$.command')
        AND (m.type = 'system' OR (o.timestamp, o.uuid) < (m.timestamp, m.uuid))
    )
) r
LEFT JOIN sessions s ON s.id = r.session_id
LEFT JOIN projects p ON p.id = s.project_id
ORDER BY r.timestamp DESC, r.message_id DESC
