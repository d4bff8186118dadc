-- Is every transcript taken in: bytes behind, bad lines and state of each source file?
--   path: the file
--   session_id: its session
--   agent_id: its agent, NULL for a main transcript
--   state: ok, partial (an unfinished last line waits), unreadable or missing
--   size: bytes at the last look
--   bytes_behind: bytes not taken in yet
--   lines: lines taken in
--   bad_lines: lines that could not be read
--   skipped_lines: lines left out on purpose
--   last_error: the newest thing wrong with it
--   last_read_at: when lines were last taken in
--   missing_since: when it was found to be gone
-- filters: since=last_read_at project=session_id session=session_id
-- example: ctxdb query ingest_health --limit 10
SELECT
  f.path, f.session_id, f.agent_id, f.state, f.size,
  CASE WHEN f.missing_since IS NULL THEN max(f.size - f."offset", 0) ELSE 0 END AS bytes_behind,
  f.lines, f.bad_lines, f.skipped_lines,
  (SELECT e.reason FROM ingest_errors e WHERE e.source_file_id = f.id ORDER BY e.id DESC LIMIT 1) AS last_error,
  f.last_read_at, f.missing_since
FROM source_files f
ORDER BY bytes_behind DESC, f.bad_lines DESC, f.path
