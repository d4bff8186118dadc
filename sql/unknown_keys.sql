-- Which keys, blocks and types does ctxdb have no place for, in which versions of Claude Code?
--   key (text, about): its path: a key of the entry, message.KEY, message.usage.KEY, toolUseResult.KEY, content.BLOCK, content.BLOCK.KEY; system.SUBTYPE, attachment.TYPE and entry.TYPE for types
--   version (text, always): the version of Claude Code that wrote it, if it is known
--   entries (number): entries that have it
--   sessions (number): sessions that have it
--   bytes (bytes): size of its values in the database
--   first_at (time): when it was first written
--   last_at (time): when it was last written
--   example (text, outcome): one of the values, cut after 200 characters
-- filters: since=last_at
-- example: ctxdb query unknown_keys --limit 20
WITH found AS (
  SELECT k.key, m.version, m.session_id, m.timestamp, k.value
  FROM messages m, json_each(m.extra) k
  WHERE m.extra IS NOT NULL AND k.key <> 'truncated'
  UNION ALL
  -- An unknown type of entry is stored whole; only some say their version.
  SELECT 'entry.' || coalesce(e.type, ''), coalesce(json_extract(e.data, '$.version'), s.version), e.session_id, e.timestamp, e.data
  FROM _event_lines l CROSS JOIN events e ON e.id = l.event_id
  LEFT JOIN sessions s ON s.id = e.session_id
  WHERE l.is_unknown = 1
)
SELECT key, version, count(*) AS entries, count(DISTINCT session_id) AS sessions, sum(length(CAST(value AS BLOB))) AS bytes,
  min(timestamp) AS first_at, max(timestamp) AS last_at, substr(max(value), 1, 200) AS example
FROM found
GROUP BY key, version
ORDER BY last_at DESC, entries DESC, key, version
