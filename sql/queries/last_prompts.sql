-- What was the last thing that was asked in each project?
--   started_at (time): when it was asked; newest first
--   project (text, always): name of the project; if several projects have this name, with the folders above it
--   prompt (text, about): what was asked
--   last_reply (text, outcome): the last thing that the model said in reply
--   title (text): the title of the session
--   git_branch (text): the last branch of the session
--   repo_path (path): the folder of the project; for a worktree, the folder of its repository
--   session_id (id, always): the session; claude --resume takes it
--   turn_id (id, detail): the human request
-- filters: since=turns.started_at project=turns.session_id human=turns.session_id session=turns.session_id
-- example: ctxdb query last_prompts --limit 10
-- Slash commands of the client, such as /clear and /exit, are not what a person wants to read here.
WITH last AS MATERIALIZED ( -- in SQLite, the other columns are from the row that has the max()
  SELECT max(t.started_at) AS started_at, t.id, t.session_id, p.repo_path
  FROM turns t
  JOIN sessions s ON s.id = t.session_id
  JOIN projects p ON p.id = s.project_id
  WHERE t.kind IN ('prompt', 'queued', 'sdk', 'plan') OR t.kind = 'command' AND EXISTS (SELECT 1 FROM usage u WHERE u.turn_id = t.id)
  GROUP BY p.repo_path
)
SELECT l.started_at, n.project, t.prompt,
  (
    SELECT m.text FROM messages m
    WHERE m.turn_id = t.id AND m.kind = 'assistant' AND m.text IS NOT NULL AND m.is_sidechain = 0
      AND trim(m.text, char(9, 10, 13, 32)) <> ''
    ORDER BY m.source_file_id DESC, m.byte_start DESC LIMIT 1
  ) AS last_reply,
  coalesce(s.title, '(untitled)') AS title, s.git_branch, l.repo_path, l.session_id, l.id AS turn_id
FROM last l
JOIN turns t ON t.id = l.id
JOIN sessions s ON s.id = l.session_id
LEFT JOIN _project_names n ON n.repo_path = l.repo_path
ORDER BY l.started_at DESC, l.repo_path
