-- What is each repository called, if several have the same name?
--   repo_path: the folder of the repository
--   project: its name; if others have the same name, with as many folders above it as tell them apart
--   worktrees: its worktrees in which sessions began
WITH RECURSIVE repos AS MATERIALIZED (
  SELECT repo_path, max(name) AS name, sum(path <> repo_path) AS worktrees, '/' || trim(replace(repo_path, '\', '/'), '/') AS folders
  FROM projects GROUP BY repo_path
),
longer(repo_path, folders, shown, rest) AS ( -- one more folder at a time, while another repository ends with the same folders
  SELECT r.repo_path, r.folders, '/' || r.name, substr(r.folders, 1, length(r.folders) - length(r.name) - 1)
  FROM repos r
  WHERE substr(r.folders, -length(r.name) - 1) = '/' || r.name AND (SELECT count(*) FROM repos o WHERE o.name = r.name) > 1
  UNION ALL
  SELECT l.repo_path, l.folders, substr(l.folders, length(rtrim(l.rest, replace(l.rest, '/', '')))),
    substr(l.rest, 1, length(rtrim(l.rest, replace(l.rest, '/', ''))) - 1)
  FROM longer l
  WHERE l.rest <> '' AND EXISTS (
    SELECT 1 FROM repos o WHERE o.repo_path <> l.repo_path AND substr(o.folders, -length(l.shown)) = l.shown
  )
)
SELECT r.repo_path, coalesce((
    SELECT substr(l.shown, 2) FROM longer l WHERE l.repo_path = r.repo_path ORDER BY length(l.shown) DESC LIMIT 1
  ), r.name) AS project, r.worktrees
FROM repos r
