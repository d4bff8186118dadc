-- Which calls failed, whose, and with what message?
--   started_at: when it was called; the newest is first
--   person: the person, as the machine's config says; perhaps a hash
--   team: the team, as the machine's config says
--   repository: owner/name of the repository, or the name of its folder
--   tool: name of the tool
--   target: what it was about, if you may see it
--   message: the beginning of its result, if you may see it
--   exit_code: of a shell command
--   duration_ms: how long it took
--   session_id: its session
SELECT t.started_at, m.person, m.team, s.repository, t.name AS tool, t.target,
  substr(replace(replace(t.result_text, '<tool_use_error>', ''), '</tool_use_error>', ''), 1, 1000) AS message,
  t.exit_code, t.duration_ms, t.session_id
FROM ctxdb.tool_uses t
LEFT JOIN ctxdb._machines m ON m.machine = t.machine
LEFT JOIN ctxdb._sessions s ON s.session_id = t.session_id AND s.machine = t.machine
WHERE t.status = 'error'
ORDER BY t.started_at DESC, t.session_id, t.key
