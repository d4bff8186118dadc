-- What was on the to-do lists, and what became of it?
--   updated_at (time): when it got this state; newest first
--   project (text): name of the project
--   status (text, always): pending, in_progress, completed, deleted, or dropped (unfinished, and missing from a later list)
--   subject (text, about): what is to do
--   description (text, detail): more about it
--   prompt (text, outcome): the human request in which it got this state
--   source (text, detail): TodoWrite, TaskCreate (and TaskUpdate), or file
--   created_at (time, detail): when it first appeared
--   session_id (id, always): the session
--   agent_id (id, detail): the agent whose to-do it is; NULL for the main thread
--   item_id (id, detail): its number, where it has one
--   turn_id (id, detail): the human request
-- filters: since=updated_at project=session_id session=session_id
-- one row per: todos ORDER BY updated_at DESC, id DESC
-- example: ctxdb query todo_items --limit 10
SELECT d.updated_at, p.name AS project, d.status, d.subject, d.description, t.prompt, d.source, d.created_at,
  d.session_id, d.agent_id, d.item_id, d.turn_id
FROM todos d
LEFT JOIN turns t ON t.id = d.turn_id
LEFT JOIN sessions s ON s.id = d.session_id
LEFT JOIN projects p ON p.id = s.project_id
ORDER BY d.updated_at DESC, d.id DESC
