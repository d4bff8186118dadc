-- 0003_forget: what its owner wants kept out of the database.

-- What `ctxdb forget` has removed. Nothing of it is read again. No name is in clear text here.
CREATE TABLE _forgotten (
  hash BLOB PRIMARY KEY, -- keyed hash of what is kept out
  kind TEXT NOT NULL, -- session, slug (the name of its plan's file) or line (of history.jsonl, where a line names no session)
  session BLOB NOT NULL, -- hash of the session that it was removed with
  forgotten_at TEXT NOT NULL, -- when it was removed
  erased_at TEXT, -- when no file held its bytes any more; NULL while that is still to be done
  messages INTEGER NOT NULL DEFAULT 0, -- messages that were removed with a session
  tool_uses INTEGER NOT NULL DEFAULT 0, -- tool calls that were removed with it
  files INTEGER NOT NULL DEFAULT 0 -- transcripts that were removed with it
) WITHOUT ROWID;
CREATE INDEX _forgotten_unerased ON _forgotten(hash) WHERE erased_at IS NULL;

-- What is kept out because its project is ignored, and files of forgotten sessions. No name is in clear text here.
CREATE TABLE _kept_out (
  hash BLOB NOT NULL, -- keyed hash of the name
  kind TEXT NOT NULL, -- file (a transcript), session, slug, or folder (one that had a .ctxdb-ignore in it)
  stat BLOB, -- of a file: how it looked, as _file_marks.stat
  PRIMARY KEY (hash, kind)
) WITHOUT ROWID;
