-- Who last edited this file: which session, and what led to it?
--   timestamp (time): when it happened; newest first
--   path (path, about): the file
--   operation (text, always): create, write, edit, notebook_edit or delete
--   lines_added (number): lines added
--   lines_removed (number): lines removed
--   prompt (text, outcome): the human request that led to it
--   project (text): name of the project
--   title (text, about): the session's title
--   agent_id (id, detail): the agent that did it; NULL for the main thread
--   session_id (id, always): the session
--   turn_id (id, detail): the row of turns for this human request
-- :path: a path, or its last parts: src/app.py, app.py
-- :limit = 5: how many edits
-- filters: since=files_touched.timestamp project=files_touched.session_id session=files_touched.session_id
-- example: ctxdb query last_edits -p path src/sync.ts
SELECT f.timestamp, f.path, f.operation, f.lines_added, f.lines_removed, t.prompt, p.name AS project, coalesce(s.title, '(untitled)') AS title, f.agent_id, f.session_id, f.turn_id
FROM files_touched f
LEFT JOIN sessions s ON s.id = f.session_id
LEFT JOIN projects p ON p.id = s.project_id
LEFT JOIN turns t ON t.id = f.turn_id
WHERE instr('/' || f.path || '/', '/' || trim(replace('/' || :path, '/./', '/'), '/') || '/') > 0
  AND f.succeeded = 1 AND f.operation IN ('create', 'write', 'edit', 'notebook_edit', 'delete')
ORDER BY f.timestamp DESC, f.id DESC
LIMIT :limit
