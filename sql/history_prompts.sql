-- Which prompts does only history.jsonl have, because their transcript is gone or never had them?
--   timestamp (time): when it was typed; newest first
--   project (text): name of the project, or the last part of the folder
--   prompt (text, about): what was typed, with placeholders for what was pasted
--   pasted_bytes (bytes, detail): size of what was pasted; the contents are not kept
--   project_path (path, detail): the folder it was typed in
--   session_id (id, always): the session, where the line names it
--   project_id (id, detail): the project, if a session of it is known
-- filters: since=timestamp project=project_id session=session_id
-- example: ctxdb query history_prompts --limit 10
SELECT h.timestamp,
  coalesce(p.name, replace(h.project_path, rtrim(h.project_path, replace(h.project_path, '/', '')), '')) AS project,
  h.prompt, h.pasted_bytes, h.project_path, h.session_id, p.id AS project_id
FROM history h
LEFT JOIN projects p ON p.path = h.project_path
WHERE h.turn_id IS NULL
ORDER BY h.timestamp DESC, h.id DESC
