-- Is every transcript read to its end: bytes behind, bad lines and state of each source file?
--   path (path, about): the file
--   session_id (id, always): its session
--   agent_id (id, detail): its agent; NULL for a main transcript
--   state (text): ok, partial (the last line is unfinished), unreadable or missing
--   size (bytes): size in bytes when it was last checked
--   bytes_behind (bytes): bytes that are not read yet
--   lines (number): lines that were read
--   bad_lines (number): lines that could not be read
--   skipped_lines (number): lines that are left out on purpose
--   writes_lost (number): how often the file says that Claude Code could not write lines (session_writes_lost); those lines are in no file
--   last_error (text): the latest error in this file
--   last_read_at (time): when lines were last read
--   missing_since (time): when the file was found to be missing
--   machine (text, detail): the other machine that the file is on; empty for this one
-- filters: since=last_read_at project=session_id session=session_id
-- example: ctxdb query ingest_health --limit 10
SELECT
  f.path, f.session_id, f.agent_id, f.state, f.size,
  CASE WHEN f.missing_since IS NULL THEN max(f.size - f."offset", 0) ELSE 0 END AS bytes_behind,
  f.lines, f.bad_lines, f.skipped_lines, coalesce(w.writes_lost, 0) AS writes_lost,
  (SELECT e.reason FROM ingest_errors e WHERE e.source_file_id = f.id ORDER BY e.id DESC LIMIT 1) AS last_error,
  f.last_read_at, f.missing_since, f.machine
FROM source_files f
LEFT JOIN (
  SELECT m.source_file_id, count(*) AS writes_lost FROM messages m
  WHERE m.kind = 'system' AND m.subtype = 'session_writes_lost'
  GROUP BY 1
) w ON w.source_file_id = f.id
ORDER BY bytes_behind DESC, f.bad_lines DESC, f.path
