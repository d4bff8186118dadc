-- 0003_view_indexes: what the views look things up by. Narrow and mostly partial, because every
-- index slows the first sync: the rare kinds of messages, and calls that did not end well.

-- Compactions, failures of the API, interruptions: 2 % of the messages.
CREATE INDEX messages_notices ON messages(kind, subtype, timestamp) 
  WHERE kind = 'system' OR kind = 'interruption' OR kind = 'synthetic'; -- IN would fill a temporary table for each row

-- Errors, refusals, and calls without a result: 5 % of the calls.
CREATE INDEX tool_uses_not_ok ON tool_uses(status, started_at) WHERE status <> 'ok';

-- Counts and percentiles of each tool without reading the calls themselves, which are large.
CREATE INDEX tool_uses_duration ON tool_uses(name, duration_ms, status, started_at);

-- The commands of a turn, likewise: the old index with one column more.
DROP INDEX tool_uses_turn_id;
CREATE INDEX tool_uses_turn_id ON tool_uses(turn_id, name);

-- The failures of a turn and of a session: 2 % of the calls.
CREATE INDEX tool_uses_failed_turn ON tool_uses(turn_id) WHERE status = 'error';
CREATE INDEX tool_uses_failed_session ON tool_uses(session_id) WHERE status = 'error';

-- The files that a turn and a session changed: again the old indexes, with what is counted.
DROP INDEX files_touched_turn_id;
CREATE INDEX files_touched_turn_id ON files_touched(turn_id, path, operation, succeeded);
DROP INDEX files_touched_session_id;
CREATE INDEX files_touched_session_id ON files_touched(session_id, path, operation, succeeded, lines_added, lines_removed);

-- Sessions in the order in which they are listed.
DROP INDEX sessions_started_at;
CREATE INDEX sessions_started_at ON sessions(started_at DESC, id);

-- The history of files by time.
CREATE INDEX files_touched_timestamp ON files_touched(timestamp);

-- Replies that name no request are few; those that tell nothing of tokens are among them.
CREATE INDEX messages_no_request ON messages(timestamp) WHERE kind = 'assistant' AND request_id IS NULL;

-- What the model said to each request: the last of it is the reply. 16 % of the messages.
CREATE INDEX messages_said ON messages(turn_id, source_file_id, byte_start)
  WHERE kind = 'assistant' AND text IS NOT NULL AND is_sidechain = 0;
