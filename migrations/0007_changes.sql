-- 0007_changes: which sessions have changed since when, so that push sends only these.

-- When each session last changed: one row per session that any row of any table names.
CREATE TABLE _session_changes (
  session_id TEXT PRIMARY KEY, -- the session; empty for rows that are of no session
  seq INTEGER NOT NULL -- number of the change: later changes have higher numbers
) WITHOUT ROWID;
CREATE INDEX _session_changes_seq ON _session_changes(seq, session_id);

-- What was read before this step counts as changed now.
INSERT OR IGNORE INTO _session_changes SELECT id, 1 FROM sessions;
INSERT OR IGNORE INTO _session_changes SELECT DISTINCT coalesce(session_id, ''), 1 FROM messages;
INSERT OR IGNORE INTO _session_changes SELECT DISTINCT coalesce(session_id, ''), 1 FROM events;
INSERT OR IGNORE INTO _session_changes SELECT DISTINCT coalesce(session_id, ''), 1 FROM tool_uses;
INSERT OR IGNORE INTO _session_changes SELECT DISTINCT session_id, 1 FROM todos;
INSERT OR IGNORE INTO _session_changes SELECT DISTINCT coalesce(session_id, ''), 1 FROM plans;
INSERT OR IGNORE INTO _session_changes SELECT DISTINCT coalesce(session_id, ''), 1 FROM history;

-- Forgotten sessions, by hashes that all machines of a team can compare: push tells the server.
CREATE TABLE _shared_forgotten (
  hash TEXT PRIMARY KEY, -- hash of the session's id, which is random
  session BLOB NOT NULL -- as _forgotten.hash; if that has no such row, the tombstone was removed again
) WITHOUT ROWID;

-- What this database is known by; one that is made again is another one.
INSERT OR IGNORE INTO _meta VALUES ('database id', lower(hex(randomblob(16))));
