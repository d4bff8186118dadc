-- 0004_carried: which sessions were copied from an earlier database, because their lines are gone.

-- Sessions whose bytes exist nowhere: their rows were copied when the database was made again.
CREATE TABLE _carried_sessions (
  session_id TEXT PRIMARY KEY, -- the session
  carried_at TEXT NOT NULL, -- when it was last copied
  meanings INTEGER NOT NULL -- version of the meanings by which its rows were made
) WITHOUT ROWID;
