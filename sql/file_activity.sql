-- Which files are read and changed most, by how many sessions, and when was the last time?
--   project (text): name of the project
--   path (path, about): the file
--   relative_path (path, detail): the path below the project's folder; NULL if it is outside
--   reads (number): times it was read
--   edits (number): times it was changed, written or created
--   lines_added (number): lines that these edits added
--   lines_removed (number): lines that these edits removed
--   failed (number): reads and edits that failed or were refused
--   mentions (number): times a person mentioned it with @
--   sessions (number): sessions that read, changed or mentioned it
--   first_touched_at (time, detail): when it was first read, changed or mentioned
--   last_touched_at (time): when it was last read, changed or mentioned
--   project_id (id, detail): the project
-- filters: since=files_touched.timestamp project=files_touched.session_id session=files_touched.session_id
-- example: ctxdb query file_activity --since 7d --limit 20
SELECT p.name AS project, f.path, max(f.relative_path) AS relative_path,
  sum(f.operation = 'read' AND f.succeeded IS 1) AS reads,
  sum(f.operation NOT IN ('read', 'mention') AND f.succeeded IS 1) AS edits,
  coalesce(sum(CASE WHEN f.succeeded THEN f.lines_added END), 0) AS lines_added,
  coalesce(sum(CASE WHEN f.succeeded THEN f.lines_removed END), 0) AS lines_removed,
  sum(f.succeeded IS 0) AS failed, sum(f.operation = 'mention') AS mentions,
  count(DISTINCT f.session_id) AS sessions, min(f.timestamp) AS first_touched_at, max(f.timestamp) AS last_touched_at, f.project_id
FROM files_touched f
LEFT JOIN projects p ON p.id = f.project_id
WHERE f.operation <> 'snapshot'
GROUP BY +f.project_id, f.path -- the plus makes SQLite use the index of time for a period, not the index of projects
ORDER BY edits DESC, reads DESC, last_touched_at DESC, f.path
