-- Which commands failed, and what was done until the same command succeeded again?
--   started_at (time): when it failed; newest first
--   project (text): name of the project
--   command (text, about): the command that failed
--   message (text, outcome): what the command printed
--   fixed_by (text): the next similar command that succeeded in the same session: npm test after npm test, pytest after pytest
--   edits_between (text): files that were changed in between
--   minutes (number): how many minutes passed until then
--   session_id (id, always): the session
--   turn_id (id, detail): the human request
-- :since (since) = 30d: from when
-- :program = %: only commands that begin with this; % is any command
-- filters: until=started_at project=session_id session=session_id
-- example: ctxdb query failing_commands -p since 2025-01-01 -p program npm
WITH run AS NOT MATERIALIZED ( -- without "cd somewhere &&", which says only where it ran
  SELECT u.*, CASE WHEN trim(u.target) LIKE 'cd %&& %' THEN ltrim(substr(u.target, instr(u.target, '&& ') + 3)) ELSE ltrim(u.target) END || ' ' AS line
  FROM tool_uses u
  WHERE u.name IN ('Bash', 'PowerShell')
),
failed AS (
  SELECT r.id, r.started_at, r.session_id, r.turn_id, r.target, r.result_text,
    -- Two words if the second looks like a subcommand (npm test), else one (pytest tests/).
    CASE WHEN second <> '' AND second NOT GLOB '*[^a-z:]*' THEN first || ' ' || second ELSE first END || ' ' AS program
  FROM (
    SELECT r.*, substr(r.line, 1, instr(r.line, ' ') - 1) AS first,
      substr(substr(r.line, instr(r.line, ' ') + 1), 1, instr(substr(r.line, instr(r.line, ' ') + 1) || ' ', ' ') - 1) AS second
    FROM run r
    WHERE r.status = 'error' AND r.status <> 'ok' AND r.started_at >= :since
  ) r
),
ended AS (
  SELECT f.*, (
      SELECT n.id FROM run n
      WHERE n.session_id = f.session_id AND n.started_at > f.started_at AND n.status = 'ok' AND substr(n.line, 1, length(f.program)) = f.program
      ORDER BY n.started_at LIMIT 1
    ) AS fix
  FROM failed f
  WHERE f.program LIKE :program || '%'
)
SELECT f.started_at, p.name AS project, f.target AS command, substr(f.result_text, 1, 500) AS message, n.target AS fixed_by,
  (
    SELECT group_concat(path, ', ') FROM (
      SELECT DISTINCT coalesce(e.relative_path, e.path) AS path FROM files_touched e
      WHERE e.session_id = f.session_id AND e.timestamp BETWEEN f.started_at AND n.started_at
        AND e.succeeded = 1 AND e.operation IN ('create', 'write', 'edit', 'notebook_edit', 'delete')
    )
  ) AS edits_between,
  round((julianday(n.finished_at) - julianday(f.started_at)) * 1440, 1) AS minutes, f.session_id, f.turn_id
FROM ended f
LEFT JOIN tool_uses n ON n.id = f.fix
LEFT JOIN sessions s ON s.id = f.session_id
LEFT JOIN projects p ON p.id = s.project_id
ORDER BY f.started_at DESC, f.id DESC
