-- Which files does one session read again and again?
--   path (path, about): the file
--   most_in_a_session (number): the most reads of it in a single session
--   reads (number): all reads of it
--   sessions (number): sessions that read it
--   result_bytes (bytes): size of what all reads returned together
--   project (text): name of the project
--   last_read_at (time): when it was last read
-- :since (since) = 30d: from when
-- :least = 2: at least so many reads in one session
-- :limit = 30: how many files
-- filters: until=files_touched.timestamp project=files_touched.session_id session=files_touched.session_id
-- example: ctxdb query repeated_reads -p since 2025-01-01 -p least 1
SELECT r.path, max(r.reads) AS most_in_a_session, sum(r.reads) AS reads, count(*) AS sessions, sum(r.result_bytes) AS result_bytes, p.name AS project,
  max(r.last_read_at) AS last_read_at
FROM (
  SELECT f.project_id, f.session_id, coalesce(f.relative_path, f.path) AS path, count(*) AS reads, sum(u.result_bytes) AS result_bytes, max(f.timestamp) AS last_read_at
  FROM files_touched f
  LEFT JOIN tool_uses u ON u.id = f.tool_id
  WHERE f.operation = 'read' AND f.succeeded = 1 AND f.timestamp >= :since
  GROUP BY f.project_id, f.session_id, 3
) r
LEFT JOIN projects p ON p.id = r.project_id
GROUP BY r.project_id, r.path
HAVING max(r.reads) >= :least
ORDER BY most_in_a_session DESC, reads DESC, r.path
LIMIT :limit
