-- Which files are read and changed most, by how many people and sessions?
--   repository: owner/name of the repository, or the name of its folder
--   path: the file below its project's folder; the whole path outside of it
--   reads: times it was read
--   edits: times it was changed, written or created
--   lines_added: lines that these edits added
--   lines_removed: lines that these edits removed
--   people: people who read, changed or mentioned it
--   sessions: sessions that did
--   last_touched_at: when it was last read, changed or mentioned
SELECT s.repository, coalesce(f.relative_path, f.path) AS path,
  count(*) FILTER (WHERE f.operation = 'read' AND f.succeeded = 1) AS reads,
  count(*) FILTER (WHERE f.operation NOT IN ('read', 'mention') AND f.succeeded = 1) AS edits,
  coalesce(sum(f.lines_added) FILTER (WHERE f.succeeded = 1), 0) AS lines_added,
  coalesce(sum(f.lines_removed) FILTER (WHERE f.succeeded = 1), 0) AS lines_removed,
  count(DISTINCT m.person) AS people, count(DISTINCT f.session_id) AS sessions, max(f."timestamp") AS last_touched_at
FROM ctxdb.files_touched f
LEFT JOIN ctxdb._machines m ON m.machine = f.machine
LEFT JOIN ctxdb._sessions s ON s.session_id = f.session_id AND s.machine = f.machine
WHERE f.operation <> 'snapshot'
GROUP BY s.repository, coalesce(f.relative_path, f.path)
ORDER BY edits DESC, reads DESC, path
