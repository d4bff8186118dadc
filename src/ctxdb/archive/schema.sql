-- The archive of a ctxdb database: the exact bytes of the files it was made from.

-- one row per file and generation
CREATE TABLE files (
  id INTEGER PRIMARY KEY,
  path TEXT NOT NULL, -- where the file is or was; what is not UTF-8 is escaped
  path_bytes BLOB, -- the exact path, where `path` is not
  root TEXT NOT NULL, -- the folder below which it was found
  kind TEXT NOT NULL, -- transcript, or what else it is
  session_id TEXT, -- the session it belongs to, if to one
  project TEXT NOT NULL, -- the folder below the root: files of one project are sealed together
  generation INTEGER NOT NULL, -- 1, and one more each time the file was rewritten
  size INTEGER NOT NULL DEFAULT 0, -- bytes archived
  mark BLOB, -- hash of the first and last archived bytes
  stat BLOB, -- device, inode, size and times of the file when it was last archived
  has_all INTEGER NOT NULL DEFAULT 0, -- 1: nothing follows the archived bytes, as of `archived_at`
  first_at TEXT NOT NULL, -- when the first bytes came
  archived_at TEXT NOT NULL, -- when the last bytes came
  UNIQUE (path, generation)
);
CREATE INDEX files_by_session ON files (session_id);
CREATE INDEX files_by_project ON files (project);
-- by device and inode: a renamed file keeps them
CREATE INDEX files_by_inode ON files (substr(stat, 1, 16));

-- bytes as they came in, each row compressed on its own
CREATE TABLE frames (
  id INTEGER PRIMARY KEY,
  file_id INTEGER NOT NULL REFERENCES files (id),
  start INTEGER NOT NULL, -- first byte in the file
  length INTEGER NOT NULL, -- bytes before compression
  checksum BLOB NOT NULL, -- BLAKE2b of the bytes before compression
  data BLOB NOT NULL, -- a zstd frame
  UNIQUE (file_id, start)
);

-- bytes of the files of one project, compressed together
CREATE TABLE blocks (
  id INTEGER PRIMARY KEY,
  project TEXT NOT NULL,
  length INTEGER NOT NULL, -- bytes before compression
  data BLOB NOT NULL, -- a zstd frame
  made_at TEXT NOT NULL,
  checksum BLOB -- BLAKE2b of `data`; NULL in a block of an archive of version 1
);
CREATE INDEX blocks_by_project ON blocks (project);

-- which bytes of which file are where in a block
CREATE TABLE parts (
  id INTEGER PRIMARY KEY,
  block_id INTEGER NOT NULL REFERENCES blocks (id),
  at INTEGER NOT NULL, -- first byte in the block
  file_id INTEGER NOT NULL REFERENCES files (id),
  start INTEGER NOT NULL, -- first byte in the file
  length INTEGER NOT NULL,
  checksum BLOB NOT NULL, -- BLAKE2b of these bytes
  UNIQUE (file_id, start)
);
CREATE INDEX parts_by_block ON parts (block_id);

-- what else there is to know
CREATE TABLE meta (
  key TEXT PRIMARY KEY,
  value TEXT
);

-- secrets that were overwritten with `*` of the same length, with redact.archive = true
CREATE TABLE masked (
  file_id INTEGER NOT NULL REFERENCES files (id),
  start INTEGER NOT NULL, -- first byte in the file
  length INTEGER NOT NULL,
  rule TEXT NOT NULL, -- the rule that has found it
  PRIMARY KEY (file_id, start)
) WITHOUT ROWID;

-- lines that hold such secrets
CREATE TABLE masked_lines (
  file_id INTEGER NOT NULL REFERENCES files (id),
  start INTEGER NOT NULL, -- first byte of the line in the file
  known_by TEXT NOT NULL, -- JSON: keyed digests of the line and of its blocks as they were
  PRIMARY KEY (file_id, start)
) WITHOUT ROWID;
