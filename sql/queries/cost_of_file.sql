-- What did this file cost: the human requests that changed it, divided among the files that they changed?
--   path (path, about): the file; the most expensive is first
--   cost_usd (money, always): its share in USD: the cost of each human request, divided by the number of files that it changed
--   cost_of_turns_usd (money): the whole cost of these human requests in USD
--   turns (number): human requests that changed it; the work of a session outside of them counts as one
--   sessions (number): sessions of these human requests
--   edits (number): times it was changed
--   lines_added (number): lines added
--   lines_removed (number): lines removed
--   last_edit_at (time): when it was last changed
--   project (text): name of the project
--   requests_unpriced (number, detail): billed requests without a price; the cost does not include them
--   requests_not_final (number, detail): billed requests whose output count is only a lower bound
-- :path = %: a path, or its last parts; % is every file
-- :limit = 20: how many files
-- rows share requests: the files that one turn changed have the requests of that turn in common
-- filters: project=files_touched.session_id session=files_touched.session_id
-- example: ctxdb query cost_of_file -p path src
WITH changed AS MATERIALIZED (
  SELECT coalesce(f.turn_id, f.session_id) AS unit, f.project_id, f.path, count(*) AS edits, sum(f.lines_added) AS lines_added, sum(f.lines_removed) AS lines_removed,
    max(f.timestamp) AS last_edit_at, f.session_id
  FROM files_touched f
  WHERE f.succeeded = 1 AND f.operation IN ('create', 'write', 'edit', 'notebook_edit', 'delete')
  GROUP BY 1, f.path
),
spent AS MATERIALIZED (
  SELECT c.unit, c.cost, c.requests_unpriced, c.requests_not_final, n.files
  FROM (
    SELECT coalesce(turn_id, session_id) AS unit, sum(cost) AS cost, count(*) - count(price_id) AS requests_unpriced,
      count(*) - sum(output_is_final) AS requests_not_final
    FROM _costs
    WHERE coalesce(turn_id, session_id) IN (
      SELECT unit FROM changed WHERE :path = '%' OR instr('/' || path || '/', '/' || trim(replace('/' || :path, '/./', '/'), '/') || '/') > 0
    )
    GROUP BY 1
  ) c
  JOIN (SELECT unit, count(*) AS files FROM changed GROUP BY unit) n ON n.unit = c.unit
)
SELECT f.path, sum(s.cost / s.files) / 1e12 AS cost_usd, sum(s.cost) / 1e12 AS cost_of_turns_usd, count(*) AS turns, count(DISTINCT f.session_id) AS sessions,
  sum(f.edits) AS edits, coalesce(sum(f.lines_added), 0) AS lines_added, coalesce(sum(f.lines_removed), 0) AS lines_removed,
  max(f.last_edit_at) AS last_edit_at, p.name AS project,
  coalesce(sum(s.requests_unpriced), 0) AS requests_unpriced, coalesce(sum(s.requests_not_final), 0) AS requests_not_final
FROM changed f
LEFT JOIN spent s ON s.unit = f.unit
LEFT JOIN projects p ON p.id = f.project_id
WHERE :path = '%' OR instr('/' || f.path || '/', '/' || trim(replace('/' || :path, '/./', '/'), '/') || '/') > 0
GROUP BY f.project_id, f.path
ORDER BY cost_usd DESC, edits DESC, f.path
LIMIT :limit
