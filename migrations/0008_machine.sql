-- 0008_machine: files of another machine, which `ctxdb merge` brings, may have the same paths.

CREATE TABLE _files_before AS SELECT * FROM source_files;
DROP TABLE source_files;

-- Transcript files and how far each has been read.
CREATE TABLE source_files (
  id INTEGER PRIMARY KEY, -- surrogate key
  path TEXT NOT NULL, -- full path; bytes that are not UTF-8 are written as \xNN
  machine TEXT NOT NULL DEFAULT '', -- id of the other machine that has the file; empty for this one
  session_id TEXT, -- session of the file: its name, else the first sessionId inside
  agent_id TEXT, -- agent whose file it is, NULL for a main transcript
  size INTEGER NOT NULL DEFAULT 0, -- bytes at the last look
  "offset" INTEGER NOT NULL DEFAULT 0, -- bytes taken in, always just after a newline
  lines INTEGER NOT NULL DEFAULT 0, -- newline-ended lines taken in, blank ones included
  bad_lines INTEGER NOT NULL DEFAULT 0, -- of these, lines that could not be read
  skipped_lines INTEGER NOT NULL DEFAULT 0, -- of these, lines left out on purpose
  state TEXT NOT NULL DEFAULT 'new' CHECK (state = 'new' OR state = 'ok' OR state = 'partial' OR state = 'unreadable' OR state = 'missing'), -- new (not read yet), ok, partial (an unfinished last line waits), unreadable or missing
  first_seen_at TEXT, -- when ctxdb first saw it
  last_read_at TEXT, -- when lines were last taken in
  missing_since TEXT, -- when it was found to be gone; NULL for a file of another machine
  UNIQUE (path, machine)
);
INSERT INTO source_files (id, path, session_id, agent_id, size, "offset", lines, bad_lines, skipped_lines, state, first_seen_at, last_read_at, missing_since)
SELECT id, path, session_id, agent_id, size, "offset", lines, bad_lines, skipped_lines, state, first_seen_at, last_read_at, missing_since FROM _files_before;
DROP TABLE _files_before;
CREATE INDEX source_files_session_id ON source_files(session_id);
CREATE INDEX source_files_present ON source_files(session_id, agent_id) WHERE missing_since IS NULL;
CREATE INDEX source_files_agent_id ON source_files(agent_id) WHERE agent_id IS NOT NULL;
CREATE INDEX source_files_elsewhere ON source_files(machine) WHERE machine <> '';
CREATE TRIGGER source_files_bookkeeping_ad AFTER DELETE ON source_files BEGIN
  DELETE FROM _file_marks WHERE source_file_id = OLD.id;
END;
CREATE TRIGGER source_files_masked_ad AFTER DELETE ON source_files BEGIN
  DELETE FROM _masked WHERE source_file_id = OLD.id;
END;
