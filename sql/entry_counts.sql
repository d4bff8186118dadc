-- What is in the transcripts: lines by type and version, and what was done with them?
--   type (text): entry type; empty if the line has none
--   version (text): Claude Code version; empty if the line has none
--   outcome (text): stored, copy, skipped or bad
--   reason (text, outcome): why the line was skipped or bad, or what was corrected
--   lines (number): how many lines
--   files (number): how many files have such lines
-- example: ctxdb query entry_counts --limit 20
SELECT type, version, outcome, reason, sum(lines) AS lines, count(DISTINCT source_file_id) AS files
FROM line_counts
GROUP BY type, version, outcome, reason
ORDER BY lines DESC, type, version, outcome, reason
