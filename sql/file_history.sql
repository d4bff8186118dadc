-- When was each file read, changed or mentioned, by which session, and what led to it?
--   timestamp (time): when it happened; newest first
--   project (text): name of the project
--   path (path, about): the path as it was given to the tool
--   relative_path (path, detail): the path below the project's folder; NULL if it is outside
--   operation (text, always): read, create, write, edit, notebook_edit, delete or mention; snapshot if asked for
--   succeeded (number, detail): 1 or 0; NULL while there is no result
--   lines_added (number): lines added
--   lines_removed (number): lines removed
--   prompt (text, outcome): the human request that led to it
--   session_id (id, always): the session
--   turn_id (id, detail): the row of turns for this human request
--   agent_id (id, detail): the agent that did it; NULL for the main thread
--   tool_use_id (id, detail): the call; NULL for mentions and snapshots
-- :snapshots = 0: 1 shows the backups that Claude Code made as well
-- filters: since=timestamp project=session_id session=session_id
-- period: 30d
-- example: ctxdb query file_history -p path src/sync.ts
SELECT f.timestamp, p.name AS project, f.path, f.relative_path, f.operation, f.succeeded, f.lines_added, f.lines_removed,
  t.prompt, f.session_id, f.turn_id, f.agent_id, f.tool_use_id
FROM files_touched f
LEFT JOIN projects p ON p.id = f.project_id
LEFT JOIN turns t ON t.id = f.turn_id
WHERE f.operation <> 'snapshot' OR 0 /* :snapshots */
ORDER BY f.timestamp DESC, f.id DESC
