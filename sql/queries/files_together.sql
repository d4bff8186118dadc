-- Which files change together: pairs that the same human requests changed?
--   together (number): human requests that changed both files
--   path (path, about): one file
--   other_path (path): the other file
--   share (share): the share of the human requests that changed the first file and also changed the other, 0 to 1
--   sessions (number): sessions in which both were changed
--   project (text): name of the project
--   last_at (time): when both were last changed
-- :path = %: only pairs with a file of this path, or of these last parts; % is any file
-- :least = 2: only pairs that changed together at least so many times
-- :limit = 50: how many pairs
-- filters: since=files_touched.timestamp project=files_touched.session_id session=files_touched.session_id
-- example: ctxdb query files_together -p least 1
WITH changed AS MATERIALIZED (
  SELECT DISTINCT f.turn_id, f.project_id, f.session_id, coalesce(f.relative_path, f.path) AS path, t.started_at
  FROM files_touched f JOIN turns t ON t.id = f.turn_id
  WHERE f.succeeded = 1 AND f.operation IN ('create', 'write', 'edit', 'notebook_edit', 'delete')
),
times AS MATERIALIZED (SELECT project_id, path, count(*) AS turns FROM changed GROUP BY project_id, path)
SELECT count(*) AS together, a.path, b.path AS other_path, round(1.0 * count(*) / n.turns, 2) AS share, count(DISTINCT a.session_id) AS sessions,
  p.name AS project, max(a.started_at) AS last_at
FROM changed a
-- Without :path, each pair is shown once. With :path, that file is the first of the pair.
JOIN changed b ON b.turn_id = a.turn_id AND b.project_id IS a.project_id AND CASE WHEN :path = '%' THEN a.path < b.path ELSE a.path <> b.path END
JOIN times n ON n.project_id IS a.project_id AND n.path = a.path
LEFT JOIN projects p ON p.id = a.project_id
WHERE :path = '%' OR instr('/' || a.path || '/', '/' || trim(replace('/' || :path, '/./', '/'), '/') || '/') > 0
GROUP BY a.project_id, a.path, b.path
HAVING count(*) >= :least
ORDER BY together DESC, share DESC, a.path, b.path
LIMIT :limit
