-- 0002_masked: where secrets were masked, so that a line that is read again says the same.

-- Secrets that were masked: where each is in its file. The secrets themselves are nowhere in this database.
CREATE TABLE _masked (
  source_file_id INTEGER NOT NULL, -- file
  byte_start INTEGER NOT NULL, -- where it begins; in a line over 4 MB, counted without the base64 that is cut from the line
  byte_length INTEGER NOT NULL, -- its length in bytes
  rule TEXT NOT NULL, -- the rule that found it; match for what `redact --match` masked
  PRIMARY KEY (source_file_id, byte_start)
) WITHOUT ROWID;
CREATE TRIGGER source_files_masked_ad AFTER DELETE ON source_files BEGIN
  DELETE FROM _masked WHERE source_file_id = OLD.id;
END;
