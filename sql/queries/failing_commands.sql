-- Which commands failed, and what was done until the same command succeeded again?
--   started_at (time): when it failed; newest first
--   project (text): name of the project
--   command (text, about): the command that failed
--   failures (number, always): how often the same command failed in the same project in this period; --sort -failures shows the worst first
--   message (text): what the command printed
--   fixed_by (text, outcome): the next time that the same command succeeded in the same project: npm run test after npm run test, pytest tests/a.py after pytest -x tests/a.py; NULL if it never did
--   edits_between (text): files that the session changed in between
--   minutes (number): how many minutes passed until then
--   session_id (id, always): the session
--   turn_id (id, detail): the human request
-- :since (since) = 30d: from when
-- :once = 0: 1 shows each command once, by its newest failure that something fixed (else its newest)
-- :program = %: only commands that begin with this; % is any command
-- filters: until=started_at project=session_id human=session_id session=session_id
-- example: ctxdb query failing_commands -p since 2025-01-01 -p program npm
-- Two commands are the same if their first three words are: uv run pytest, make test, git push origin. In a chain (a && b), this
-- holds for each part. Flags, quoted words and assignments do not count, nor does "cd somewhere &&", which says only where it ran.
-- A fix is a run whose success was seen: not one that ends with || true, nor with a pipe (| tail) or another command (; echo) unless the
-- failed one did, too. A call that was given up because one beside it failed (Sibling tool call errored) is no failure of its command.
WITH RECURSIVE run AS (
  SELECT id, gave_up, CASE WHEN line LIKE 'cd %&& %' THEN ltrim(substr(line, instr(line, '&& ') + 3)) ELSE line END || ' ' AS line
  FROM (
    SELECT u.id, u.status = 'error' AND u.result_text LIKE '%Sibling tool call errored%' AND length(u.result_text) < 100 AS gave_up, ltrim(replace(replace(substr(coalesce(CASE WHEN json_valid(u.input) THEN json_extract(u.input, '$.command') END, u.target), 1, 400), char(10), ' ; '), char(9), ' ')) AS line
    FROM tool_uses u
    WHERE u.name IN ('Bash', 'PowerShell') AND u.started_at >= :since AND u.status IN ('ok', 'error')
  )
  WHERE NOT gave_up
),
-- left: how many words are still to be taken, -1 at the end of the command; quote: the sign that ends a quoted text; seen: whose status the
-- call has: 2 of this command, 1 of one after it, 0 of none (|| true)
word(id, next, rest, program, left, quote, seen) AS (
  SELECT id, substr(line, 1, instr(line, ' ') - 1), ltrim(substr(line, instr(line, ' '))), '', 3, '', 2 FROM run
  UNION ALL
  SELECT id, substr(rest, 1, instr(rest, ' ') - 1), ltrim(substr(rest, instr(rest, ' '))),
    program || CASE WHEN quote <> '' THEN '' WHEN next = '&&' THEN '&& '
      WHEN left = 0 OR next GLOB '[-|;&<>"''$(]*' OR next GLOB '[0-9]>*' OR next GLOB '[A-Za-z_]*=*' THEN '' ELSE rtrim(next, ';') || ' ' END,
    CASE WHEN quote <> '' THEN left WHEN next = '&&' THEN 3
      WHEN next GLOB '[|;&<>]*' OR next GLOB '[^"'']*;' THEN -1
      WHEN left = 0 OR next GLOB '[-"''$(]*' OR next GLOB '[0-9]>*' OR next GLOB '[A-Za-z_]*=*' THEN left
      ELSE left - 1
    END,
    CASE WHEN quote <> '' THEN iif(rtrim(next, ';') LIKE '%' || quote, '', quote)
      WHEN next GLOB '["'']*' AND (length(next) = 1 OR rtrim(next, ';') NOT LIKE '%' || substr(next, 1, 1)) THEN substr(next, 1, 1) ELSE '' END,
    CASE WHEN quote <> '' THEN seen WHEN next GLOB '||*' THEN 0 WHEN next GLOB '[|;]*' OR next = '&' OR next GLOB '[^"'']*;' THEN min(seen, 1) ELSE seen END
  FROM word
  WHERE left >= 0 AND next <> ''
),
named AS (
  SELECT w.id, w.program,
    CASE WHEN w.seen = 0 OR w.next || ' ' || w.rest LIKE '%|| %' THEN 0 WHEN ' ' || w.next || ' ' || w.rest GLOB '* [|;&] *' THEN 1 ELSE w.seen END AS seen, u.started_at, u.session_id, u.turn_id, u.status, coalesce(p.repo_path, u.session_id) AS place, p.name AS project
  FROM word w
  JOIN tool_uses u ON u.id = w.id
  LEFT JOIN sessions s ON s.id = u.session_id
  LEFT JOIN projects p ON p.id = s.project_id
  WHERE (w.left < 0 OR w.next = '') AND w.program <> ''
),
ended AS MATERIALIZED ( -- the rows before, in descending order, are the later ones
  SELECT *, min(CASE WHEN status = 'ok' AND seen > 0 THEN started_at || ' ' || id END) OVER later AS any_fix,
    min(CASE WHEN status = 'ok' AND seen = 2 THEN started_at || ' ' || id END) OVER later AS fix,
    sum(status = 'error') OVER (PARTITION BY place, program) AS failures
  FROM named
  WINDOW later AS (PARTITION BY place, program ORDER BY started_at DESC, id DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
),
failed AS (
  SELECT *, row_number() OVER (PARTITION BY place, program ORDER BY fixed IS NULL, started_at DESC, id DESC) AS newest
  FROM (SELECT *, iif(seen = 2, fix, any_fix) AS fixed FROM ended WHERE status = 'error')
)
SELECT f.started_at, f.project, coalesce(CASE WHEN json_valid(u.input) THEN json_extract(u.input, '$.command') END, u.target) AS command,
  f.failures, substr(u.result_text, 1, 500) AS message, coalesce(CASE WHEN json_valid(n.input) THEN json_extract(n.input, '$.command') END, n.target) AS fixed_by,
  (
    SELECT group_concat(path, ', ') FROM (
      SELECT DISTINCT coalesce(e.relative_path, e.path) AS path FROM files_touched e
      WHERE e.session_id = f.session_id AND e.timestamp BETWEEN f.started_at AND n.started_at
        AND e.succeeded = 1 AND e.operation IN ('create', 'write', 'edit', 'notebook_edit', 'delete')
    )
  ) AS edits_between,
  round((julianday(n.finished_at) - julianday(f.started_at)) * 1440, 1) AS minutes, f.session_id, f.turn_id
FROM failed f
JOIN tool_uses u ON u.id = f.id
LEFT JOIN tool_uses n ON n.id = CAST(substr(f.fixed, instr(f.fixed, ' ') + 1) AS INTEGER)
WHERE f.program LIKE :program || '%' AND (:once = 0 OR f.newest = 1)
ORDER BY f.started_at DESC, f.id DESC
