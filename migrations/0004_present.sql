-- 0004_present: what is still there among all that ever was. Transcripts go after 30 days and their
-- rows stay, so that after a year most files are gone: whoever looks for news must not go over them.

CREATE INDEX source_files_present ON source_files(session_id, agent_id) WHERE missing_since IS NULL;
CREATE INDEX sessions_present ON sessions(id) WHERE source_deleted_at IS NULL;

-- A file that was gone and came back unreadable is there.
UPDATE source_files SET missing_since = NULL WHERE state = 'unreadable';
