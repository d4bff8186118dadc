-- 0001_schema: all tables, their keys, indexes, triggers and full text.
-- The comment beside each table and column describes it: the view schema_docs and the docs are made
-- from these comments. Tables whose name starts with _ are internal bookkeeping: columns that only
-- the ingest needs are there, so that a person who opens the file sees the product first.
-- CHECKs are written with OR: for IN with three or more values SQLite fills a temporary table at
-- every row it inserts.

-- What this file is, where to begin, and what to know before you share it.
CREATE TABLE README (
  topic TEXT PRIMARY KEY, -- what the text is about, in reading order
  text TEXT NOT NULL -- the text
) WITHOUT ROWID;

-- Where sessions ran: one row per working directory that a session began in.
CREATE TABLE projects (
  id INTEGER PRIMARY KEY, -- surrogate key
  path TEXT NOT NULL UNIQUE, -- the cwd that a session began in
  name TEXT NOT NULL, -- last part of repo_path: what a person would call it
  repo_path TEXT NOT NULL, -- path without a worktree suffix (/.worktrees/x, /.claude/worktrees/x, /worktrees/x, -worktrees/x), or worktree-state's original path
  path_source TEXT NOT NULL CHECK (path_source = 'cwd' OR path_source = 'sessions_index' OR path_source = 'dir_name') -- how path is known: cwd, sessions_index, or dir_name, which is a guess from the folder's name
);

-- Claude Code sessions: one row per session uuid, kept after the transcript is gone.
CREATE TABLE sessions (
  id TEXT PRIMARY KEY, -- the session's uuid
  project_id INTEGER REFERENCES projects(id), -- the project it began in
  title TEXT, -- what to call it, in one line of at most 120 characters: custom title, AI title, summary, heading of its plan, first prompt or first reply; NULL when there is none of these
  title_source TEXT CHECK (title_source = 'custom' OR title_source = 'ai' OR title_source = 'summary' OR title_source = 'plan' OR title_source = 'prompt' OR title_source = 'reply'), -- where title comes from: custom, ai, summary, plan (heading of the plan it began with), prompt or reply (no request in it: the first line of the first reply, else the first agent's description)
  names TEXT, -- every title and summary that it ever had, and its nicknames, one per line; search finds it by each of them
  slug TEXT, -- Claude Code's nickname for it, such as soft-purring-owl
  first_prompt TEXT, -- the first thing a human asked in it
  cwd TEXT, -- first working directory of the main thread
  git_branch TEXT, -- last branch seen in it
  version TEXT, -- last Claude Code version seen in it
  entrypoint TEXT, -- cli, sdk-cli, sdk-py, claude-desktop, ...
  is_automated INTEGER CHECK (is_automated = 0 OR is_automated = 1), -- 1 when a program ran it (entrypoint sdk-..., all requests by sdk, or a folder of a CI service), 0 when a person typed, NULL when nothing says which
  started_at TEXT, -- first timestamp of its own messages, subagents included
  ended_at TEXT, -- last timestamp of its own messages, subagents included
  parent_session_id TEXT, -- the session it continues; need not be in the database
  relation TEXT CHECK (relation = 'resume' OR relation = 'fork' OR relation = 'clear' OR relation = 'plan'), -- how it continues its parent: resume, fork, clear or plan (it carries out a plan that its parent made); NULL when it continues none
  source_deleted_at TEXT -- when its transcript was found to be gone
);
CREATE INDEX sessions_project_id ON sessions(project_id);
CREATE INDEX sessions_parent_session_id ON sessions(parent_session_id);
CREATE INDEX sessions_started_at ON sessions(started_at DESC, id);
CREATE INDEX sessions_slug ON sessions(slug) WHERE slug IS NOT NULL;
CREATE INDEX sessions_present ON sessions(id) WHERE source_deleted_at IS NULL;

-- Sessions whose entries are in other sessions too.
CREATE TABLE _shared_sessions (
  session_id TEXT PRIMARY KEY, -- the session
  first_unshared_at TEXT -- earliest timestamp of an entry that is in no other session; decides which session owns shared entries
) WITHOUT ROWID;

-- Transcript files and how far each has been read.
CREATE TABLE source_files (
  id INTEGER PRIMARY KEY, -- surrogate key
  path TEXT NOT NULL UNIQUE, -- full path; bytes that are not UTF-8 are written as \xNN
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
  missing_since TEXT -- when it was found to be gone
);
CREATE INDEX source_files_session_id ON source_files(session_id);
CREATE INDEX source_files_present ON source_files(session_id, agent_id) WHERE missing_since IS NULL;
CREATE INDEX source_files_agent_id ON source_files(agent_id) WHERE agent_id IS NOT NULL;

-- How each file looked when it was last read: tells an append from a rewrite.
CREATE TABLE _file_marks (
  source_file_id INTEGER PRIMARY KEY, -- the file
  path_bytes BLOB, -- the path's bytes when they are not UTF-8
  root TEXT, -- the folder it was found under
  workflow_run TEXT, -- wf_ folder it is in, for agents of a workflow
  stat BLOB, -- device, inode, size, modification and change time at the last look: five numbers in one value, which loads faster
  ino INTEGER, -- the inode again, to find a renamed file by
  mark BLOB, -- hash of the first bytes and of the last bytes before offset
  generation INTEGER NOT NULL DEFAULT 0, -- how often it was rewritten
  attempting INTEGER, -- offset of a huge line being read: set before and cleared after, so a crash on it is not repeated; -1 - offset at the second try
  searched INTEGER, -- byte up to which the unfinished line at offset has no newline; NULL for a short one
  searched_mark BLOB -- hash of that line's first bytes and of the last bytes before searched
);
CREATE INDEX _file_marks_ino ON _file_marks(ino);

-- What each file says about each session that it has lines of; sessions is derived from these.
CREATE TABLE _session_files (
  session_id TEXT NOT NULL, -- session
  source_file_id INTEGER NOT NULL, -- file
  main_lines INTEGER NOT NULL DEFAULT 0, -- 1 when it holds own lines of the main thread
  first_cwd TEXT, -- first working directory of own main-thread lines
  agent_cwd TEXT, -- first working directory of own agent lines
  git_branch TEXT, -- last branch of own lines
  version TEXT, -- last version of own lines
  slug TEXT, -- last slug of any line
  entrypoint TEXT, -- last entrypoint of any line
  first_at TEXT, -- first timestamp of own lines
  last_at TEXT, -- last timestamp of own lines
  first_user_at INTEGER, -- first byte of a main-thread user line that names this session
  last_user_at INTEGER, -- last byte of one
  forked_session TEXT, -- session that forkedFrom names, by the last line that does
  process_session TEXT, -- session the process began with, by the first line that names another
  PRIMARY KEY (session_id, source_file_id)
) WITHOUT ROWID;
CREATE INDEX _session_files_source_file_id ON _session_files(source_file_id);

-- Agents: subagents, sidechains, compaction runs and other helpers of a session.
CREATE TABLE agents (
  id INTEGER PRIMARY KEY, -- surrogate key
  session_id TEXT NOT NULL REFERENCES sessions(id), -- the session it worked for
  agent_id TEXT NOT NULL, -- the agent's own id; side-<uuid> for a sidechain of version 1.0
  kind TEXT NOT NULL CHECK (kind = 'task' OR kind = 'sidechain' OR kind = 'compact' OR kind = 'prompt_suggestion' OR kind = 'warmup' OR kind = 'workflow' OR kind = 'teammate'), -- what sort of agent: task, sidechain (of version 1.0), compact, prompt_suggestion, warmup, workflow or teammate
  agent_type TEXT, -- Explore, general-purpose, ...
  description TEXT, -- the task in a few words
  tool_use_id TEXT, -- the call that started it
  parent_agent_id TEXT, -- the agent that started it, NULL for the main thread
  depth INTEGER, -- 1 when the main thread started it
  turn_id INTEGER REFERENCES turns(id), -- the human request that led to it
  model TEXT, -- the model it ran on
  status TEXT NOT NULL CHECK (status = 'completed' OR status = 'failed' OR status = 'running' OR status = 'launched' OR status = 'unknown'), -- how it ended, as far as is known: completed, failed, running (no result yet), launched (in the background, its end is not known) or unknown
  started_at TEXT, -- first timestamp of its messages
  ended_at TEXT, -- last timestamp of its messages
  UNIQUE (session_id, agent_id)
);
CREATE INDEX agents_tool_use_id ON agents(tool_use_id);
CREATE INDEX agents_turn_id ON agents(turn_id);

-- What is known of an agent, by source; agents is made from these.
CREATE TABLE _agent_facts (
  session_id TEXT NOT NULL, -- session
  agent_id TEXT NOT NULL, -- agent, or run id of a workflow
  source TEXT NOT NULL, -- file, meta, progress, result, notice, root, workflow
  tool_use_id TEXT NOT NULL DEFAULT '', -- call it names
  at TEXT NOT NULL DEFAULT '', -- timestamp
  kind TEXT, -- kind it shows
  agent_type TEXT, -- type it names
  description TEXT, -- description it gives
  model TEXT, -- model it names
  status TEXT, -- status it reports
  parent_agent_id TEXT, -- parent it names
  depth INTEGER, -- depth it names
  run_id TEXT, -- workflow run it belongs to
  prompt_hash INTEGER, -- its first prompt, in _agent_prompts: to find the call by
  message_id INTEGER -- the message that says so
);
-- What agents were first asked, each text once.
CREATE TABLE _agent_prompts (
  hash INTEGER PRIMARY KEY, -- hash of the text
  prompt TEXT NOT NULL -- the text
);
CREATE UNIQUE INDEX _agent_facts_key ON _agent_facts(session_id, agent_id, source, tool_use_id, at, coalesce(message_id, 0));
CREATE INDEX _agent_facts_tool_use_id ON _agent_facts(tool_use_id);
CREATE INDEX _agent_facts_message_id ON _agent_facts(message_id) WHERE message_id IS NOT NULL;

-- Human requests: one row per thing a person asked, typed, queued or ran.
CREATE TABLE turns (
  id INTEGER PRIMARY KEY, -- surrogate key
  session_id TEXT REFERENCES sessions(id), -- session
  ordinal INTEGER NOT NULL DEFAULT 0, -- counts a session's own turns from 1
  kind TEXT NOT NULL CHECK (kind = 'prompt' OR kind = 'command' OR kind = 'shell' OR kind = 'queued' OR kind = 'sdk' OR kind = 'plan'), -- how it was asked: prompt, command (/name), shell (!), queued (while the agent worked), sdk (by a program) or plan (a plan was approved)
  prompt TEXT NOT NULL, -- the human's own words
  started_at TEXT, -- when it was asked
  ended_at TEXT, -- last timestamp of the work it led to, agents included; started_at when there was none
  agent_ms INTEGER, -- milliseconds the agent worked on it, as Claude Code reports them; NULL when it does not
  active_ms INTEGER, -- agent_ms, else an estimate: the gaps between the lines of its work, each counted as at most 60 seconds
  message_id INTEGER, -- the message that holds it
  event_id INTEGER, -- the queue operation that began it
  source_file_id INTEGER REFERENCES source_files(id), -- where it begins: file
  byte_start INTEGER -- where it begins: byte
);
CREATE INDEX turns_session_id ON turns(session_id, ordinal, kind);
CREATE INDEX turns_plan ON turns(session_id, ordinal) WHERE kind = 'plan';
CREATE INDEX turns_source_file_id ON turns(source_file_id, byte_start);
CREATE INDEX turns_message_id ON turns(message_id);
CREATE INDEX turns_started_at ON turns(started_at);
CREATE INDEX turns_session_file ON turns(session_id, source_file_id);
CREATE INDEX turns_session_time ON turns(session_id, started_at);
-- Times in another form than Claude Code's do not compare as texts.
CREATE INDEX turns_odd_times ON turns(session_id) WHERE started_at NOT GLOB '????-??-??T??:??:??.???Z';
CREATE INDEX turns_event_id ON turns(event_id) WHERE event_id IS NOT NULL;

-- Entries of the conversation: one row per transcript line of type user, assistant, system or attachment, once whatever files hold copies of it.
CREATE TABLE messages (
  id INTEGER PRIMARY KEY, -- surrogate key
  uuid TEXT, -- the entry's own uuid
  session_id TEXT REFERENCES sessions(id), -- session that owns it
  agent_id TEXT, -- agent that said it, NULL for the main thread
  turn_id INTEGER REFERENCES turns(id), -- the human request it belongs to
  parent_uuid TEXT, -- uuid of the nearest stored ancestor
  logical_parent_uuid TEXT, -- uuid of the last entry before a compaction, on the boundary after it, which has no parent: so a thread stays whole
  type TEXT NOT NULL CHECK (type = 'user' OR type = 'assistant' OR type = 'system' OR type = 'attachment'), -- the entry's type: user, assistant, system or attachment
  subtype TEXT, -- assistant: text, thinking, tool_use, server_tool_use or mixed; system and attachment: their own
  kind TEXT NOT NULL, -- human, command, shell, command_output, tool_result, plan, meta, compact_summary, interruption, notification, agent_prompt, assistant, synthetic, system, attachment
  timestamp TEXT, -- when, UTC
  model TEXT, -- model that answered
  api_message_id TEXT, -- id of the API message; the lines of one reply share it
  request_id TEXT, -- id of the API request
  stop_reason TEXT, -- why the reply ended; NULL while it streamed
  text TEXT, -- all text blocks, joined by a blank line
  thinking TEXT, -- all thinking blocks, joined by a blank line
  is_sidechain INTEGER NOT NULL DEFAULT 0, -- 1 for an agent's line
  cwd TEXT, -- working directory
  git_branch TEXT, -- branch
  version TEXT, -- Claude Code version that wrote it
  data TEXT, -- JSON: what else the entry says (compaction numbers, API error status, hook results, effort, images, ...)
  extra TEXT, -- JSON: keys and blocks that ctxdb has no place for, by path; without base64, at most 64 kB, truncated is true if it was cut; view unknown_keys counts them
  source_file_id INTEGER REFERENCES source_files(id), -- file that holds the line
  byte_start INTEGER, -- where the line begins
  byte_length INTEGER -- its length without the newline; negative when the line is no longer in its file
);
CREATE INDEX messages_uuid ON messages(uuid);
CREATE INDEX messages_session_id ON messages(session_id, source_file_id, byte_start);
CREATE INDEX messages_source_file_id ON messages(source_file_id, byte_start);
-- With what tells the work of a turn from the rest: how long it took is found without the messages.
CREATE INDEX messages_turn_id ON messages(turn_id, timestamp, kind, agent_id);
-- How long Claude Code says it worked, and caveats among what it wrote by itself: 2 % of the messages.
CREATE INDEX messages_turn_duration ON messages(session_id, timestamp) WHERE subtype = 'turn_duration';
CREATE INDEX messages_odd_durations ON messages(session_id) WHERE subtype = 'turn_duration' AND timestamp NOT GLOB '????-??-??T??:??:??.???Z';
CREATE INDEX messages_meta ON messages(session_id) WHERE kind = 'meta';
CREATE INDEX messages_compact_summary ON messages(parent_uuid) WHERE kind = 'compact_summary';
CREATE INDEX messages_extra ON messages(version) WHERE extra IS NOT NULL;
CREATE INDEX messages_timestamp ON messages(timestamp);
CREATE INDEX messages_agent ON messages(session_id, agent_id, timestamp) WHERE agent_id IS NOT NULL;
-- Compactions, failures of the API, interruptions: 2 % of the messages.
CREATE INDEX messages_notices ON messages(kind, subtype, timestamp)
  WHERE kind = 'system' OR kind = 'interruption' OR kind = 'synthetic'; -- IN would fill a temporary table for each row
-- What the model said to each request: the last of it is the reply. 16 % of the messages.
CREATE INDEX messages_said ON messages(turn_id, source_file_id, byte_start)
  WHERE kind = 'assistant' AND text IS NOT NULL AND is_sidechain = 0;

-- What hooks did: 1 % of the messages. The view hook_runs has the same words.
CREATE INDEX messages_hooks ON messages(timestamp) WHERE subtype = 'hook_success' OR subtype = 'hook_blocking_error' OR subtype = 'hook_non_blocking_error' OR subtype = 'hook_error_during_execution' OR subtype = 'hook_cancelled' OR subtype = 'stop_hook_summary';
CREATE INDEX messages_hook_ids ON messages(CASE WHEN json_valid(data) THEN json_extract(data, '$.toolUseID') END) WHERE subtype = 'hook_success' OR subtype = 'hook_blocking_error' OR subtype = 'hook_non_blocking_error' OR subtype = 'hook_error_during_execution' OR subtype = 'hook_cancelled' OR subtype = 'stop_hook_summary';

-- What tells the copies of an entry apart: one row per message.
CREATE TABLE _message_lines (
  message_id INTEGER PRIMARY KEY, -- the message
  owner_flags INTEGER NOT NULL, -- what counts against its line as the owner of the entry: 8 wrapped in progress, 4 forked, 2 in another session's file, 1 of a background session
  block_keys TEXT, -- hashes of its content blocks: tells a replayed entry from a new one
  line_hash INTEGER, -- hash of the line, for entries without uuid
  nth INTEGER -- how many equal lines came before, for entries without uuid
);
CREATE INDEX _message_lines_line_hash ON _message_lines(line_hash) WHERE line_hash IS NOT NULL;

-- The other places of an entry: resumed, forked and replayed history repeats old entries.
CREATE TABLE message_copies (
  id INTEGER PRIMARY KEY, -- surrogate key
  message_id INTEGER NOT NULL REFERENCES messages(id), -- the entry
  uuid TEXT, -- the copy's own uuid
  session_id TEXT, -- session the copy names
  source_file_id INTEGER NOT NULL REFERENCES source_files(id), -- file that holds it
  byte_start INTEGER NOT NULL, -- where it begins
  byte_length INTEGER NOT NULL -- its length without the newline
);
CREATE INDEX message_copies_message_id ON message_copies(message_id);
CREATE INDEX message_copies_uuid ON message_copies(uuid);
CREATE INDEX message_copies_session_id ON message_copies(session_id, source_file_id, byte_start);
CREATE INDEX message_copies_source_file_id ON message_copies(source_file_id, byte_start);

-- What tells which copy should own an entry: one row per copy.
CREATE TABLE _copy_lines (
  copy_id INTEGER PRIMARY KEY, -- the copy
  type TEXT, -- entry type of its line, as line_counts has it
  timestamp TEXT, -- the copy's timestamp
  version TEXT, -- Claude Code version of its line
  owner_flags INTEGER NOT NULL, -- as _message_lines.owner_flags, for the copy's line
  block_keys TEXT, -- as _message_lines.block_keys, for the copy's line
  line_hash INTEGER -- hash of the line, for entries without uuid
);
CREATE INDEX _copy_lines_timestamp ON _copy_lines(timestamp);
CREATE INDEX _copy_lines_line_hash ON _copy_lines(line_hash) WHERE line_hash IS NOT NULL;

-- Other uuids by which an entry is named before the line itself is seen (forkedFrom).
CREATE TABLE _aliases (
  uuid TEXT PRIMARY KEY, -- the uuid that is named; session|uuid where it is not a UUID
  message_id INTEGER NOT NULL -- the entry it names
);
CREATE INDEX _aliases_message_id ON _aliases(message_id);

-- Progress lines are not stored, but messages hang on them: their nearest ancestor.
CREATE TABLE _skipped_parents (
  uuid TEXT PRIMARY KEY, -- uuid of a skipped line
  ancestor TEXT -- uuid of the nearest ancestor that is not skipped, as far as known
) WITHOUT ROWID;

-- Messages whose parent is not stored yet, perhaps never.
CREATE TABLE _orphans (
  message_id INTEGER PRIMARY KEY, -- the message
  parent_uuid TEXT NOT NULL -- the parent it names
);
CREATE INDEX _orphans_parent_uuid ON _orphans(parent_uuid);

-- Tool calls: one row per call, joined to its result.
CREATE TABLE tool_uses (
  id INTEGER PRIMARY KEY, -- surrogate key
  tool_use_id TEXT NOT NULL, -- the call's own id, toolu_...
  message_id INTEGER REFERENCES messages(id), -- message that made the call; NULL until it is seen
  session_id TEXT REFERENCES sessions(id), -- session
  agent_id TEXT, -- agent that made the call, NULL for the main thread
  turn_id INTEGER REFERENCES turns(id), -- the human request it belongs to
  name TEXT, -- today's name of the tool
  raw_name TEXT, -- the name as written
  mcp_server TEXT, -- MCP server, from mcp__server__tool
  input TEXT, -- JSON: the call's input
  target TEXT, -- the one thing to look for, in one line of at most 300 characters: command, file path, pattern, url, description; input has all of it
  started_at TEXT, -- time of the line that made the call
  finished_at TEXT, -- time of the line with the result
  duration_ms INTEGER, -- finished minus started, approval included
  tool_ms INTEGER, -- the tool's own figure, where it gives one
  status TEXT NOT NULL DEFAULT 'pending' CHECK (status = 'ok' OR status = 'error' OR status = 'rejected' OR status = 'interrupted' OR status = 'pending'), -- how it ended: ok, error, rejected (by a person or a rule), interrupted, or pending (no result)
  is_error INTEGER, -- 1 when the result says so; NULL without a result
  exit_code INTEGER, -- of a shell command
  result_text TEXT, -- text of the result
  result_bytes INTEGER, -- size of the result
  result_path TEXT, -- file the whole output was saved to
  result_data TEXT, -- JSON: what else the result says (code and bytes of a page, stderr that is not in result_text, userModified, totalTokens, statusChange, ...)
  result_message_id INTEGER REFERENCES messages(id), -- message that holds the result
  searched_text TEXT AS (CASE WHEN name = 'Read' OR name = 'Write' OR name = 'Edit' OR name = 'NotebookRead' OR name = 'NotebookEdit' THEN CASE WHEN status = 'rejected' THEN result_text END ELSE result_text END) VIRTUAL -- result_text as the full text has it: without the contents of files, but with a person's reason for a refusal
);
-- Ids of other providers than Anthropic repeat in every session.
CREATE INDEX tool_uses_tool_use_id ON tool_uses(tool_use_id, session_id);
CREATE INDEX tool_uses_message_id ON tool_uses(message_id);
CREATE INDEX tool_uses_session_id ON tool_uses(session_id, started_at);
CREATE INDEX tool_uses_turn_id ON tool_uses(turn_id, name, status);
CREATE INDEX tool_uses_name ON tool_uses(name, started_at);
CREATE INDEX tool_uses_result_message_id ON tool_uses(result_message_id);
CREATE INDEX tool_uses_agent ON tool_uses(session_id, agent_id) WHERE agent_id IS NOT NULL;
-- Errors, refusals, and calls without a result: 5 % of the calls.
CREATE INDEX tool_uses_not_ok ON tool_uses(status, started_at) WHERE status <> 'ok';
-- Counts and percentiles of each tool without reading the calls themselves, which are large.
CREATE INDEX tool_uses_duration ON tool_uses(name, duration_ms, status, started_at);
-- The failures of a turn and of a session: 2 % of the calls.
CREATE INDEX tool_uses_failed_turn ON tool_uses(turn_id) WHERE status = 'error';
CREATE INDEX tool_uses_failed_session ON tool_uses(session_id) WHERE status = 'error';

-- Calls that change to-do lists and plans: 2 % of the calls.
CREATE INDEX tool_uses_lists ON tool_uses(session_id) WHERE name = 'TodoWrite' OR name = 'TaskCreate' OR name = 'TaskUpdate' OR name = 'ExitPlanMode';
-- Calls that ask what an agent in the background answered.
CREATE INDEX tool_uses_outputs ON tool_uses(session_id, target) WHERE name = 'TaskOutput';
CREATE INDEX tool_uses_result_path ON tool_uses(id) WHERE result_path IS NOT NULL;

-- What a result says that is needed again when its call comes later or changes; only where it says something.
CREATE TABLE _tool_results (
  tool_id INTEGER PRIMARY KEY, -- the call
  exit_code_unknown INTEGER, -- 1 when the command goes on in the background, or its exit code has another meaning
  file_path TEXT, -- file that the result names
  file_operation TEXT, -- create or write, where the result says so
  file_lines_added INTEGER, -- lines added, by the result's patch
  file_lines_removed INTEGER, -- lines removed, by the result's patch
  plan TEXT, -- the plan that the result of ExitPlanMode repeats
  line_text TEXT -- the text of the line itself, where result_text was read from the file that the output was saved to
);

-- Messages that repeat a call or a result that tool_uses has from an earlier message.
CREATE TABLE _repeated_calls (
  tool_use_id TEXT NOT NULL, -- the call's own id
  half TEXT NOT NULL, -- call or result
  message_id INTEGER NOT NULL, -- the message
  PRIMARY KEY (tool_use_id, half, message_id)
) WITHOUT ROWID;
CREATE INDEX _repeated_calls_message_id ON _repeated_calls(message_id);

-- Files that a session read, wrote, mentioned or snapshotted: one row per call.
CREATE TABLE files_touched (
  id INTEGER PRIMARY KEY, -- surrogate key
  tool_id INTEGER REFERENCES tool_uses(id), -- the call; NULL for mentions and snapshots
  tool_use_id TEXT, -- the call's own id
  session_id TEXT REFERENCES sessions(id), -- session
  agent_id TEXT, -- agent, NULL for the main thread
  turn_id INTEGER REFERENCES turns(id), -- the human request it belongs to
  project_id INTEGER REFERENCES projects(id), -- the session's project
  path TEXT NOT NULL, -- path as the tool was given it
  relative_path TEXT, -- path relative to projects.path, NULL outside of it
  operation TEXT NOT NULL CHECK (operation = 'read' OR operation = 'create' OR operation = 'write' OR operation = 'edit' OR operation = 'notebook_edit' OR operation = 'delete' OR operation = 'mention' OR operation = 'snapshot'), -- what was done: read, create, write, edit, notebook_edit, delete, mention (with @) or snapshot
  succeeded INTEGER, -- 1, 0, or NULL while there is no result
  lines_added INTEGER, -- lines added
  lines_removed INTEGER, -- lines removed
  timestamp TEXT, -- when
  message_id INTEGER REFERENCES messages(id), -- the attachment that mentions it
  snapshot_version INTEGER, -- version of a snapshot
  backup_name TEXT -- name of a snapshot's backup in ~/.claude/file-history/<session>; NULL where the file was new
);
CREATE INDEX files_touched_tool_id ON files_touched(tool_id);
CREATE INDEX files_touched_session_id ON files_touched(session_id, path, operation, succeeded, lines_added, lines_removed);
CREATE INDEX files_touched_turn_id ON files_touched(turn_id, path, operation, succeeded);
CREATE INDEX files_touched_timestamp ON files_touched(timestamp);
CREATE INDEX files_touched_project_id ON files_touched(project_id);
CREATE INDEX files_touched_path ON files_touched(path, timestamp);
CREATE INDEX files_touched_message_id ON files_touched(message_id) WHERE message_id IS NOT NULL;
CREATE UNIQUE INDEX files_touched_snapshot ON files_touched(session_id, path, snapshot_version) WHERE operation = 'snapshot';

-- The message that each snapshot was taken for, which may be stored later than the snapshot.
CREATE TABLE _snapshot_messages (
  session_id TEXT NOT NULL, -- session
  path TEXT NOT NULL, -- files_touched.path
  version INTEGER NOT NULL, -- files_touched.snapshot_version
  begun_at TEXT NOT NULL, -- when that snapshot was begun: of several, the first holds
  files INTEGER NOT NULL, -- files that its line names: of several lines of a snapshot, the one with fewest holds
  message_uuid TEXT NOT NULL, -- uuid of the message
  PRIMARY KEY (session_id, path, version)
) WITHOUT ROWID;
CREATE INDEX _snapshot_messages_message_uuid ON _snapshot_messages(message_uuid);

-- Commits, pushes and pull requests made in a session.
CREATE TABLE git_operations (
  id INTEGER PRIMARY KEY, -- surrogate key
  tool_id INTEGER REFERENCES tool_uses(id), -- the call that did it; NULL for a PR known from a pr-link entry
  session_id TEXT REFERENCES sessions(id), -- session
  turn_id INTEGER REFERENCES turns(id), -- the human request it belongs to
  kind TEXT NOT NULL CHECK (kind = 'commit' OR kind = 'push' OR kind = 'pr'), -- what was done: commit, push or pr
  sha TEXT, -- commit
  branch TEXT, -- branch; NULL where HEAD was detached
  subject TEXT, -- first line of the commit's message, where git printed it
  pr_number INTEGER, -- number of the pull request
  pr_url TEXT, -- its address
  source TEXT NOT NULL CHECK (source = 'result' OR source = 'link' OR source = 'text'), -- how it is known: result (the tool reports it), link (a pr-link entry) or text (git or gh printed it)
  timestamp TEXT -- when
);
CREATE INDEX git_operations_tool_id ON git_operations(tool_id);
CREATE INDEX git_operations_session_id ON git_operations(session_id);
CREATE INDEX git_operations_turn_id ON git_operations(turn_id);

-- Billed requests: one row per API request, however many lines report it.
CREATE TABLE usage (
  id INTEGER PRIMARY KEY, -- surrogate key
  request_key TEXT NOT NULL UNIQUE, -- what makes it one request
  api_message_id TEXT, -- id of the API message
  request_id TEXT, -- id of the API request
  session_id TEXT REFERENCES sessions(id), -- session of its first line
  agent_id TEXT, -- agent, NULL for the main thread
  turn_id INTEGER REFERENCES turns(id), -- the human request it belongs to
  model TEXT, -- model
  timestamp TEXT, -- time of its first line
  input_tokens INTEGER NOT NULL, -- input that was neither written to nor read from the cache
  output_tokens INTEGER NOT NULL, -- output, thinking included; a lower bound unless output_is_final
  cache_write_5m_tokens INTEGER NOT NULL, -- written to the 5-minute cache
  cache_write_1h_tokens INTEGER NOT NULL, -- written to the 1-hour cache
  cache_read_tokens INTEGER NOT NULL, -- read from the cache
  prompt_tokens INTEGER NOT NULL, -- size of the largest single call in it
  thinking_tokens INTEGER, -- of the output, thinking
  web_search_requests INTEGER NOT NULL DEFAULT 0, -- web searches
  service_tier TEXT, -- standard, priority, batch
  speed TEXT, -- standard or fast
  inference_geo TEXT, -- where it ran
  output_is_final INTEGER NOT NULL, -- 1 when a line of it has a stop reason
  is_sidechain INTEGER NOT NULL, -- 1 for an agent's request
  cost_reported_usd REAL, -- costUSD as old versions wrote it; never mixed into sums
  lines INTEGER NOT NULL, -- distinct entries that report it
  is_repeated INTEGER NOT NULL DEFAULT 0 -- 1 when lines of several sessions or agents told of it
);
CREATE INDEX usage_turn_id ON usage(turn_id);
CREATE INDEX usage_timestamp ON usage(timestamp);
-- Requests in the order in which sums are made: grouping needs no sorting then, which halves the time.
-- Local days, weeks and hours begin on a quarter of an hour in every time zone.
CREATE INDEX usage_session_id ON usage(session_id, model);
CREATE INDEX usage_quarter ON usage(substr(timestamp, 1, 14) || (substr(timestamp, 15, 2) / 15), model);

-- The lines that report a request; usage is derived from these.
CREATE TABLE _usage_lines (
  message_id INTEGER NOT NULL, -- the entry
  part INTEGER NOT NULL, -- 0 for the request, n for its n-th advisor call
  request_key TEXT NOT NULL, -- the request; begins with the id of the API message, if there is one
  is_background INTEGER NOT NULL, -- 1 where sessionKind is bg
  model TEXT NOT NULL, -- model
  input_tokens INTEGER NOT NULL, -- counter
  output_tokens INTEGER NOT NULL, -- counter
  cache_write_5m_tokens INTEGER NOT NULL, -- counter
  cache_write_1h_tokens INTEGER NOT NULL, -- counter
  cache_read_tokens INTEGER NOT NULL, -- counter
  prompt_tokens INTEGER NOT NULL, -- size of the largest single call
  thinking_tokens INTEGER, -- counter
  web_search_requests INTEGER NOT NULL, -- counter
  service_tier TEXT, -- as written
  speed TEXT, -- as written
  inference_geo TEXT, -- as written
  has_stop_reason INTEGER NOT NULL, -- 1 when the line has a stop reason
  cost_reported_usd REAL, -- costUSD
  PRIMARY KEY (message_id, part)
) WITHOUT ROWID;
CREATE INDEX _usage_lines_request_key ON _usage_lines(request_key);

-- To-dos: the latest state of every to-do of a session, from TodoWrite, TaskCreate and TaskUpdate calls and from the files in todos/ and tasks/.
CREATE TABLE todos (
  id INTEGER PRIMARY KEY, -- surrogate key
  session_id TEXT NOT NULL, -- its session; one that only a file names need not be in the database
  agent_id TEXT, -- agent whose to-do it is, NULL for the main thread
  turn_id INTEGER REFERENCES turns(id), -- the human request in which it got this state; NULL when only a file says so
  item_id TEXT, -- its number, where it has one; items of TodoWrite have none and are known by their text
  subject TEXT, -- what is to do; NULL when only a change of its state is known
  description TEXT, -- more about it
  status TEXT NOT NULL, -- as written: pending, in_progress, completed, deleted ...; dropped when it was unfinished and is missing from a later list
  created_at TEXT, -- when it first appeared
  updated_at TEXT, -- when it got this state
  source TEXT NOT NULL CHECK (source = 'TodoWrite' OR source = 'TaskCreate' OR source = 'file') -- what says so: TodoWrite, TaskCreate (and TaskUpdate) or file
);
CREATE UNIQUE INDEX todos_key ON todos(session_id, coalesce(agent_id, ''), coalesce(item_id, ''), iif(item_id IS NULL, subject, ''));
CREATE INDEX todos_turn_id ON todos(turn_id);
CREATE INDEX todos_updated_at ON todos(updated_at DESC, id DESC);

-- Prompts in the order they were typed, by history.jsonl: one row per line. It goes back further than the transcripts, which Claude Code deletes.
CREATE TABLE history (
  id INTEGER PRIMARY KEY, -- surrogate key
  timestamp TEXT, -- when it was typed, UTC
  project_path TEXT, -- folder it was typed in
  session_id TEXT, -- session it was typed in; need not be in the database, and files of 2025 do not say it
  prompt TEXT NOT NULL, -- what was typed, with placeholders for what was pasted
  pasted_bytes INTEGER NOT NULL DEFAULT 0, -- size of what was pasted; the contents are not kept
  turn_id INTEGER REFERENCES turns(id) -- the turn it became; NULL when no transcript has it
);
CREATE INDEX history_session_id ON history(session_id);
CREATE INDEX history_turn_id ON history(turn_id);
CREATE INDEX history_timestamp ON history(timestamp);
CREATE INDEX history_lost ON history(timestamp DESC, id DESC) WHERE turn_id IS NULL;

-- What tells the lines of history.jsonl apart, and by what they are matched: one row per row of history.
CREATE TABLE _history_lines (
  history_id INTEGER PRIMARY KEY, -- the row
  line_hash INTEGER NOT NULL, -- hash of the line's bytes
  nth INTEGER NOT NULL, -- how many equal lines came before it in its file
  text_hash INTEGER NOT NULL -- hash of the prompt with what was pasted, white space folded
);
CREATE UNIQUE INDEX _history_lines_identity ON _history_lines(line_hash, nth);
CREATE INDEX _history_lines_text_hash ON _history_lines(text_hash);

-- Where lines of history.jsonl are: a copy of the file adds places, not rows.
CREATE TABLE _history_places (
  side_file_id INTEGER NOT NULL, -- the file
  byte_start INTEGER NOT NULL, -- where the line begins
  history_id INTEGER NOT NULL, -- the row
  PRIMARY KEY (side_file_id, byte_start)
) WITHOUT ROWID;
CREATE INDEX _history_places_history_id ON _history_places(history_id);

-- Turns as lines of history.jsonl are matched with them; filled when there are such lines.
CREATE TABLE _turn_texts (
  turn_id INTEGER PRIMARY KEY, -- the turn
  session_id TEXT NOT NULL, -- its session
  project_path TEXT, -- the folder that the session began in
  started_at TEXT, -- when it began
  ordinal INTEGER NOT NULL, -- its number in the session
  text_hash INTEGER NOT NULL -- as _history_lines.text_hash
);
CREATE INDEX _turn_texts_session_id ON _turn_texts(session_id);
CREATE INDEX _turn_texts_text_hash ON _turn_texts(text_hash);

-- Plans: one row per text that a session proposed or began with, and one per file in plans/ that no session has the text of.
CREATE TABLE plans (
  id INTEGER PRIMARY KEY, -- surrogate key
  session_id TEXT, -- session that made the plan or began with it; of a file, the first session with its slug; NULL when there is none
  slug TEXT, -- the session's nickname, which is also the name of the file
  path TEXT, -- the file that the plan was saved to
  text TEXT NOT NULL, -- the plan, as Markdown
  updated_at TEXT, -- when this text was last given
  source TEXT NOT NULL CHECK (source = 'ExitPlanMode' OR source = 'planContent' OR source = 'file') -- what says so: ExitPlanMode (the plan was proposed), planContent (the session began with it) or file
);
CREATE INDEX plans_session_id ON plans(session_id);
CREATE INDEX plans_slug ON plans(slug);
CREATE INDEX plans_updated_at ON plans(updated_at DESC, id DESC);

-- Files beside the transcripts: todos/, tasks/, plans/, history.jsonl and saved outputs of tools. What was read of each, and how it looked then.
CREATE TABLE _side_files (
  id INTEGER PRIMARY KEY, -- surrogate key
  path TEXT NOT NULL UNIQUE, -- full path; bytes that are not UTF-8 are written as \xNN
  path_bytes BLOB, -- the path's bytes when they are not UTF-8
  kind TEXT NOT NULL, -- todos, task, plan, history, result (saved output of a tool) or folder (one that cannot be listed)
  session_id TEXT, -- session that its name or place tells
  agent_id TEXT, -- agent that its name tells
  slug TEXT, -- name of a plan
  stat BLOB, -- device, inode, size and times when it was read, packed; NULL when it is to be read in any case
  size INTEGER, -- size in bytes
  "offset" INTEGER NOT NULL DEFAULT 0, -- of history.jsonl: bytes read, always just after a newline
  mark BLOB, -- of history.jsonl: hash of the first bytes and of the last bytes before offset
  lines INTEGER NOT NULL DEFAULT 0, -- of history.jsonl: lines read
  bad_lines INTEGER NOT NULL DEFAULT 0, -- of history.jsonl: lines that could not be read
  state TEXT NOT NULL, -- ok, partial (an unfinished last line waits), unreadable or missing
  problem TEXT, -- what is wrong with it
  read_at TEXT, -- when it was last read
  at TEXT, -- when its contents were written
  content BLOB -- what was read: items as JSON, the text of a plan, a compressed output
);
CREATE INDEX _side_files_session_id ON _side_files(session_id);
CREATE INDEX _side_files_slug ON _side_files(slug) WHERE slug IS NOT NULL;

-- Prices per million tokens, dated and tiered.
CREATE TABLE prices (
  id INTEGER PRIMARY KEY, -- surrogate key
  model TEXT NOT NULL, -- normalised model name
  effective_from TEXT, -- first day it holds; NULL is since ever
  effective_to TEXT, -- first day it no longer holds; NULL is still
  prompt_tokens_gt INTEGER NOT NULL DEFAULT 0, -- holds for prompts larger than this
  input_usd_per_mtok REAL NOT NULL, -- input
  output_usd_per_mtok REAL NOT NULL, -- output
  cache_write_5m_usd_per_mtok REAL NOT NULL, -- write to the 5-minute cache
  cache_write_1h_usd_per_mtok REAL NOT NULL, -- write to the 1-hour cache
  cache_read_usd_per_mtok REAL NOT NULL, -- read from the cache
  fast_multiplier REAL, -- factor in fast mode
  us_geo_multiplier REAL, -- factor where inference_geo is us
  source TEXT, -- where the price is from
  confidence TEXT, -- how sure it is
  note TEXT, -- remarks
  origin TEXT NOT NULL DEFAULT 'user' CHECK (origin = 'shipped' OR origin = 'user') -- shipped (ours) or user (yours, which wins)
);
CREATE INDEX prices_model ON prices(model);

-- Every other entry: titles, snapshots, queue operations, modes, links, and types ctxdb does not know yet.
CREATE TABLE events (
  id INTEGER PRIMARY KEY, -- surrogate key
  session_id TEXT REFERENCES sessions(id), -- session
  type TEXT, -- the entry's type
  subtype TEXT, -- operation of a queue operation, mode, and the like
  timestamp TEXT, -- when, where the entry says so
  data TEXT NOT NULL, -- JSON: the entry, without account ids and base64
  source_file_id INTEGER REFERENCES source_files(id), -- file that holds the line
  byte_start INTEGER, -- where it begins
  byte_length INTEGER -- its length without the newline; negative when the line is no longer in its file
);
CREATE INDEX events_session_id ON events(session_id, type, source_file_id, byte_start);
CREATE INDEX events_source_file_id ON events(source_file_id, byte_start);
CREATE INDEX events_type ON events(type, timestamp);

-- What makes an event the same event in another file: one row per event.
CREATE TABLE _event_lines (
  event_id INTEGER PRIMARY KEY, -- the event
  line_hash INTEGER NOT NULL, -- hash of the line's bytes
  file_session TEXT NOT NULL DEFAULT '', -- session of its file
  nth INTEGER NOT NULL, -- how many equal lines came before it in its file
  is_unknown INTEGER NOT NULL DEFAULT 0 -- 1 where its type was on no list when it was read
);
CREATE UNIQUE INDEX _event_lines_identity ON _event_lines(line_hash, file_session, nth);
CREATE INDEX _event_lines_unknown ON _event_lines(event_id) WHERE is_unknown = 1;

-- The other places where an event occurs.
CREATE TABLE _event_copies (
  event_id INTEGER NOT NULL, -- the event
  source_file_id INTEGER NOT NULL, -- file
  byte_start INTEGER NOT NULL, -- where it begins
  byte_length INTEGER NOT NULL, -- its length
  PRIMARY KEY (source_file_id, byte_start)
) WITHOUT ROWID;
CREATE INDEX _event_copies_event_id ON _event_copies(event_id);

-- Summaries name the session they are of by its last entry.
CREATE TABLE _summaries (
  event_id INTEGER PRIMARY KEY, -- the summary's event
  leaf_uuid TEXT NOT NULL, -- entry it names
  summary TEXT NOT NULL, -- its text
  leaf_session TEXT -- session that owns that entry; NULL until the entry is seen
);
CREATE INDEX _summaries_leaf_session ON _summaries(leaf_session);

-- Every line of every file, counted: what became of it and why.
CREATE TABLE line_counts (
  source_file_id INTEGER NOT NULL REFERENCES source_files(id), -- file
  type TEXT NOT NULL, -- entry type, empty when the line has none
  version TEXT NOT NULL, -- Claude Code version, empty when the line has none
  outcome TEXT NOT NULL CHECK (outcome = 'stored' OR outcome = 'copy' OR outcome = 'skipped' OR outcome = 'bad'), -- what became of it: stored, copy, skipped or bad
  reason TEXT NOT NULL, -- why it was skipped or bad, or what was mended; else empty
  lines INTEGER NOT NULL, -- how many
  PRIMARY KEY (source_file_id, type, version, outcome, reason)
) WITHOUT ROWID;

-- Lines and files that could not be read, or only after mending.
CREATE TABLE ingest_errors (
  id INTEGER PRIMARY KEY, -- surrogate key
  source_file_id INTEGER REFERENCES source_files(id), -- file
  byte_start INTEGER, -- where the line begins; NULL when the whole file is meant
  byte_length INTEGER, -- its length
  reason TEXT NOT NULL, -- what is wrong
  excerpt TEXT, -- its first bytes, escaped
  seen_at TEXT NOT NULL -- when
);
CREATE INDEX ingest_errors_source_file_id ON ingest_errors(source_file_id);

-- Settings and facts of this database.
CREATE TABLE _meta (
  key TEXT PRIMARY KEY, -- name
  value TEXT -- value
) WITHOUT ROWID;

-- What schema_docs shows; filled from the comments in migrations/ and sql/.
CREATE TABLE _schema_docs (
  kind TEXT NOT NULL, -- table or view
  name TEXT NOT NULL, -- its name
  "column" TEXT NOT NULL, -- column, empty for the table itself
  position INTEGER NOT NULL, -- order of the columns
  description TEXT NOT NULL, -- in words
  PRIMARY KEY (name, "column")
) WITHOUT ROWID;

-- Full text: words are split at _ and punctuation, accents do not matter. The contents of files that
-- Read, Write and Edit return are left out (tool_uses.searched_text). content="..." is how Datasette
-- and sqlite-utils find the index of a table.
CREATE VIRTUAL TABLE messages_fts USING fts5(text, thinking, content="messages", content_rowid="id", tokenize='unicode61 remove_diacritics 2');
CREATE VIRTUAL TABLE tool_uses_fts USING fts5(target, input, searched_text, content="tool_uses", content_rowid="id", tokenize='unicode61 remove_diacritics 2');
CREATE VIRTUAL TABLE turns_fts USING fts5(prompt, content="turns", content_rowid="id", tokenize='unicode61 remove_diacritics 2');
CREATE VIRTUAL TABLE sessions_fts USING fts5(title, names, content="sessions", content_rowid="rowid", tokenize='unicode61 remove_diacritics 2');

CREATE VIRTUAL TABLE todos_fts USING fts5(subject, description, content="todos", content_rowid="id", tokenize='unicode61 remove_diacritics 2');
CREATE VIRTUAL TABLE plans_fts USING fts5(text, content="plans", content_rowid="id", tokenize='unicode61 remove_diacritics 2');
CREATE VIRTUAL TABLE history_fts USING fts5(prompt, content="history", content_rowid="id", tokenize='unicode61 remove_diacritics 2');

-- The batch that adds rows adds them to the full text too (one statement is three times as fast as a
-- trigger per row). Changes and removals are rare and go through triggers. Messages without text are
-- in it too: FTS5's integrity-check compares the number of rows.
-- Turns and sessions are few: triggers add them too.
CREATE TRIGGER turns_fts_ai AFTER INSERT ON turns BEGIN
  INSERT INTO turns_fts(rowid, prompt) VALUES (new.id, new.prompt);
END;
CREATE TRIGGER turns_fts_ad AFTER DELETE ON turns BEGIN
  INSERT INTO turns_fts(turns_fts, rowid, prompt) VALUES ('delete', old.id, old.prompt);
END;
CREATE TRIGGER turns_fts_au AFTER UPDATE OF prompt ON turns WHEN old.prompt IS NOT new.prompt BEGIN
  INSERT INTO turns_fts(turns_fts, rowid, prompt) VALUES ('delete', old.id, old.prompt);
  INSERT INTO turns_fts(rowid, prompt) VALUES (new.id, new.prompt);
END;
CREATE TRIGGER sessions_fts_ai AFTER INSERT ON sessions BEGIN
  INSERT INTO sessions_fts(rowid, title, names) VALUES (new.rowid, new.title, new.names);
END;
CREATE TRIGGER sessions_fts_ad AFTER DELETE ON sessions BEGIN
  INSERT INTO sessions_fts(sessions_fts, rowid, title, names) VALUES ('delete', old.rowid, old.title, old.names);
END;
CREATE TRIGGER sessions_fts_au AFTER UPDATE OF title, names ON sessions WHEN old.title IS NOT new.title OR old.names IS NOT new.names BEGIN
  INSERT INTO sessions_fts(sessions_fts, rowid, title, names) VALUES ('delete', old.rowid, old.title, old.names);
  INSERT INTO sessions_fts(rowid, title, names) VALUES (new.rowid, new.title, new.names);
END;
CREATE TRIGGER messages_fts_ad AFTER DELETE ON messages BEGIN
  INSERT INTO messages_fts(messages_fts, rowid, text, thinking) VALUES ('delete', old.id, old.text, old.thinking);
END;
CREATE TRIGGER messages_fts_au AFTER UPDATE OF text, thinking ON messages WHEN old.text IS NOT new.text OR old.thinking IS NOT new.thinking BEGIN
  INSERT INTO messages_fts(messages_fts, rowid, text, thinking) VALUES ('delete', old.id, old.text, old.thinking);
  INSERT INTO messages_fts(rowid, text, thinking) VALUES (new.id, new.text, new.thinking);
END;
CREATE TRIGGER tool_uses_fts_ad AFTER DELETE ON tool_uses BEGIN
  INSERT INTO tool_uses_fts(tool_uses_fts, rowid, target, input, searched_text) VALUES ('delete', old.id, old.target, old.input, old.searched_text);
END;
CREATE TRIGGER tool_uses_fts_au AFTER UPDATE OF name, target, input, result_text, status ON tool_uses WHEN old.target IS NOT new.target OR old.input IS NOT new.input OR old.searched_text IS NOT new.searched_text BEGIN
  INSERT INTO tool_uses_fts(tool_uses_fts, rowid, target, input, searched_text) VALUES ('delete', old.id, old.target, old.input, old.searched_text);
  INSERT INTO tool_uses_fts(rowid, target, input, searched_text) VALUES (new.id, new.target, new.input, new.searched_text);
END;

-- To-dos, plans and history have few rows: triggers keep their full text in step.
CREATE TRIGGER todos_fts_ai AFTER INSERT ON todos BEGIN
  INSERT INTO todos_fts(rowid, subject, description) VALUES (new.id, new.subject, new.description);
END;
CREATE TRIGGER todos_fts_ad AFTER DELETE ON todos BEGIN
  INSERT INTO todos_fts(todos_fts, rowid, subject, description) VALUES ('delete', old.id, old.subject, old.description);
END;
CREATE TRIGGER todos_fts_au AFTER UPDATE OF subject, description ON todos WHEN old.subject IS NOT new.subject OR old.description IS NOT new.description BEGIN
  INSERT INTO todos_fts(todos_fts, rowid, subject, description) VALUES ('delete', old.id, old.subject, old.description);
  INSERT INTO todos_fts(rowid, subject, description) VALUES (new.id, new.subject, new.description);
END;
CREATE TRIGGER plans_fts_ai AFTER INSERT ON plans BEGIN
  INSERT INTO plans_fts(rowid, text) VALUES (new.id, new.text);
END;
CREATE TRIGGER plans_fts_ad AFTER DELETE ON plans BEGIN
  INSERT INTO plans_fts(plans_fts, rowid, text) VALUES ('delete', old.id, old.text);
END;
CREATE TRIGGER plans_fts_au AFTER UPDATE OF text ON plans WHEN old.text IS NOT new.text BEGIN
  INSERT INTO plans_fts(plans_fts, rowid, text) VALUES ('delete', old.id, old.text);
  INSERT INTO plans_fts(rowid, text) VALUES (new.id, new.text);
END;
CREATE TRIGGER history_fts_ai AFTER INSERT ON history BEGIN
  INSERT INTO history_fts(rowid, prompt) VALUES (new.id, new.prompt);
END;
CREATE TRIGGER history_fts_ad AFTER DELETE ON history BEGIN
  INSERT INTO history_fts(history_fts, rowid, prompt) VALUES ('delete', old.id, old.prompt);
END;
CREATE TRIGGER history_fts_au AFTER UPDATE OF prompt ON history WHEN old.prompt IS NOT new.prompt BEGIN
  INSERT INTO history_fts(history_fts, rowid, prompt) VALUES ('delete', old.id, old.prompt);
  INSERT INTO history_fts(rowid, prompt) VALUES (new.id, new.prompt);
END;

-- The names under which a model's price is looked for, nearest first.
CREATE TABLE _model_names (
  model TEXT NOT NULL, -- model as transcripts write it
  place INTEGER NOT NULL, -- 0 is the name itself
  name TEXT NOT NULL, -- name to look for in prices
  PRIMARY KEY (model, place)
) WITHOUT ROWID;

-- Shipped prices that the user deleted or changed; an upgrade does not bring them back.
CREATE TABLE _deleted_prices (
  model TEXT NOT NULL, -- as in prices
  effective_from TEXT NOT NULL, -- as in prices, empty for since ever
  prompt_tokens_gt INTEGER NOT NULL, -- as in prices
  PRIMARY KEY (model, effective_from, prompt_tokens_gt)
) WITHOUT ROWID;

-- A price that is no number would silently count as 0, a huge one would overflow the sums.
CREATE TRIGGER prices_check_insert BEFORE INSERT ON prices
BEGIN
  SELECT CASE
    WHEN typeof(NEW.model) <> 'text' OR trim(NEW.model) = ''
      THEN RAISE(ABORT, 'a price needs a model')
    WHEN coalesce(NEW.effective_from, '') NOT GLOB '[0-9][0-9][0-9][0-9]-[01][0-9]-[0-3][0-9]'
        AND coalesce(NEW.effective_from, '') <> ''
      OR coalesce(NEW.effective_to, '') NOT GLOB '[0-9][0-9][0-9][0-9]-[01][0-9]-[0-3][0-9]'
        AND coalesce(NEW.effective_to, '') <> ''
      THEN RAISE(ABORT, 'a date is written YYYY-MM-DD, or left empty')
    WHEN typeof(NEW.prompt_tokens_gt) <> 'integer' OR NEW.prompt_tokens_gt < 0
      THEN RAISE(ABORT, 'prompt_tokens_gt is a whole number of tokens, 0 or more')
    WHEN typeof(NEW.input_usd_per_mtok) NOT IN ('real', 'integer')
      OR typeof(NEW.output_usd_per_mtok) NOT IN ('real', 'integer')
      OR typeof(NEW.cache_write_5m_usd_per_mtok) NOT IN ('real', 'integer')
      OR typeof(NEW.cache_write_1h_usd_per_mtok) NOT IN ('real', 'integer')
      OR typeof(NEW.cache_read_usd_per_mtok) NOT IN ('real', 'integer')
      OR NOT NEW.input_usd_per_mtok BETWEEN 0 AND 10000
      OR NOT NEW.output_usd_per_mtok BETWEEN 0 AND 10000
      OR NOT NEW.cache_write_5m_usd_per_mtok BETWEEN 0 AND 10000
      OR NOT NEW.cache_write_1h_usd_per_mtok BETWEEN 0 AND 10000
      OR NOT NEW.cache_read_usd_per_mtok BETWEEN 0 AND 10000
      THEN RAISE(ABORT, 'a price is a number of USD per million tokens, 0 to 10000')
    WHEN coalesce(NEW.fast_multiplier, '') <> '' AND (typeof(NEW.fast_multiplier) NOT IN ('real', 'integer')
        OR NOT NEW.fast_multiplier BETWEEN 0 AND 100)
      OR coalesce(NEW.us_geo_multiplier, '') <> '' AND (typeof(NEW.us_geo_multiplier) NOT IN ('real', 'integer')
        OR NOT NEW.us_geo_multiplier BETWEEN 0 AND 100)
      THEN RAISE(ABORT, 'a multiplier is a number, 0 to 100, or left empty')
  END;
END;
CREATE TRIGGER prices_check_update BEFORE UPDATE ON prices
BEGIN
  SELECT CASE
    WHEN typeof(NEW.model) <> 'text' OR trim(NEW.model) = ''
      THEN RAISE(ABORT, 'a price needs a model')
    WHEN coalesce(NEW.effective_from, '') NOT GLOB '[0-9][0-9][0-9][0-9]-[01][0-9]-[0-3][0-9]'
        AND coalesce(NEW.effective_from, '') <> ''
      OR coalesce(NEW.effective_to, '') NOT GLOB '[0-9][0-9][0-9][0-9]-[01][0-9]-[0-3][0-9]'
        AND coalesce(NEW.effective_to, '') <> ''
      THEN RAISE(ABORT, 'a date is written YYYY-MM-DD, or left empty')
    WHEN typeof(NEW.prompt_tokens_gt) <> 'integer' OR NEW.prompt_tokens_gt < 0
      THEN RAISE(ABORT, 'prompt_tokens_gt is a whole number of tokens, 0 or more')
    WHEN typeof(NEW.input_usd_per_mtok) NOT IN ('real', 'integer')
      OR typeof(NEW.output_usd_per_mtok) NOT IN ('real', 'integer')
      OR typeof(NEW.cache_write_5m_usd_per_mtok) NOT IN ('real', 'integer')
      OR typeof(NEW.cache_write_1h_usd_per_mtok) NOT IN ('real', 'integer')
      OR typeof(NEW.cache_read_usd_per_mtok) NOT IN ('real', 'integer')
      OR NOT NEW.input_usd_per_mtok BETWEEN 0 AND 10000
      OR NOT NEW.output_usd_per_mtok BETWEEN 0 AND 10000
      OR NOT NEW.cache_write_5m_usd_per_mtok BETWEEN 0 AND 10000
      OR NOT NEW.cache_write_1h_usd_per_mtok BETWEEN 0 AND 10000
      OR NOT NEW.cache_read_usd_per_mtok BETWEEN 0 AND 10000
      THEN RAISE(ABORT, 'a price is a number of USD per million tokens, 0 to 10000')
    WHEN coalesce(NEW.fast_multiplier, '') <> '' AND (typeof(NEW.fast_multiplier) NOT IN ('real', 'integer')
        OR NOT NEW.fast_multiplier BETWEEN 0 AND 100)
      OR coalesce(NEW.us_geo_multiplier, '') <> '' AND (typeof(NEW.us_geo_multiplier) NOT IN ('real', 'integer')
        OR NOT NEW.us_geo_multiplier BETWEEN 0 AND 100)
      THEN RAISE(ABORT, 'a multiplier is a number, 0 to 100, or left empty')
  END;
END;

-- A user who edits a shipped price has taken over the model's prices: an upgrade leaves them alone.
CREATE TRIGGER prices_edited AFTER UPDATE ON prices
WHEN OLD.origin = 'shipped' AND NEW.origin = 'shipped'
  AND NOT EXISTS (SELECT 1 FROM _meta WHERE key = 'refreshing prices')
BEGIN
  INSERT OR IGNORE INTO _deleted_prices
  VALUES (OLD.model, coalesce(OLD.effective_from, ''), OLD.prompt_tokens_gt);
  INSERT OR IGNORE INTO _deleted_prices
  SELECT model, coalesce(effective_from, ''), prompt_tokens_gt FROM prices
  WHERE model IN (OLD.model, NEW.model) AND origin = 'shipped';
  UPDATE prices SET origin = 'user' WHERE model IN (OLD.model, NEW.model);
END;
CREATE TRIGGER prices_deleted AFTER DELETE ON prices
WHEN OLD.origin = 'shipped' AND NOT EXISTS (SELECT 1 FROM _meta WHERE key = 'refreshing prices')
BEGIN
  INSERT OR IGNORE INTO _deleted_prices
  VALUES (OLD.model, coalesce(OLD.effective_from, ''), OLD.prompt_tokens_gt);
END;

-- Bookkeeping is deleted with its row, also by other tools: ids may be used again.
CREATE TRIGGER messages_bookkeeping_ad AFTER DELETE ON messages BEGIN
  DELETE FROM _message_lines WHERE message_id = OLD.id;
  DELETE FROM _usage_lines WHERE message_id = OLD.id;
  DELETE FROM _orphans WHERE message_id = OLD.id;
END;
CREATE TRIGGER message_copies_bookkeeping_ad AFTER DELETE ON message_copies BEGIN
  DELETE FROM _copy_lines WHERE copy_id = OLD.id;
END;
CREATE TRIGGER tool_uses_bookkeeping_ad AFTER DELETE ON tool_uses BEGIN
  DELETE FROM _tool_results WHERE tool_id = OLD.id;
END;
CREATE TRIGGER events_bookkeeping_ad AFTER DELETE ON events BEGIN
  DELETE FROM _event_lines WHERE event_id = OLD.id;
END;
CREATE TRIGGER history_bookkeeping_ad AFTER DELETE ON history BEGIN
  DELETE FROM _history_lines WHERE history_id = OLD.id;
  DELETE FROM _history_places WHERE history_id = OLD.id;
END;
CREATE TRIGGER source_files_bookkeeping_ad AFTER DELETE ON source_files BEGIN
  DELETE FROM _file_marks WHERE source_file_id = OLD.id;
END;
