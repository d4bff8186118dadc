-- Which sessions read or changed this file or folder?
--   last_touched_at (time): when it was last read or changed; newest first
--   project (text): name of the project
--   title (text, about): the session's title
--   reads (number): times it was read
--   edits (number): times it was changed
--   lines_added (number): lines added
--   lines_removed (number): lines removed
--   files (number): how many files of that path it read or changed
--   first_touched_at (time, detail): when it was first read or changed
--   session_id (id, always): the session
-- :path: a path, or its last parts: src/app.py, app.py, src
-- filters: since=last_touched_at project=session_id session=session_id
-- example: ctxdb query sessions_touching -p path src/sync.ts
SELECT max(f.timestamp) AS last_touched_at, p.name AS project, coalesce(s.title, '(untitled)') AS title,
  sum(f.operation = 'read' AND f.succeeded IS 1) AS reads,
  sum(f.operation IN ('create', 'write', 'edit', 'notebook_edit', 'delete') AND f.succeeded IS 1) AS edits,
  coalesce(sum(CASE WHEN f.succeeded THEN f.lines_added END), 0) AS lines_added,
  coalesce(sum(CASE WHEN f.succeeded THEN f.lines_removed END), 0) AS lines_removed,
  count(DISTINCT f.path) AS files, min(f.timestamp) AS first_touched_at, f.session_id
FROM files_touched f
LEFT JOIN sessions s ON s.id = f.session_id
LEFT JOIN projects p ON p.id = s.project_id
WHERE instr('/' || f.path || '/', '/' || trim(replace('/' || :path, '/./', '/'), '/') || '/') > 0 AND f.operation <> 'snapshot'
GROUP BY f.session_id
ORDER BY last_touched_at DESC, f.session_id
