-- Which plans were made, and what do they say?
--   updated_at (time): when this text was last given; newest first
--   project (text): name of the project
--   title (text, about): the first line of the plan
--   text (text, detail): the plan, as Markdown
--   bytes (bytes): size of the text
--   source (text): ExitPlanMode (proposed), planContent (a session began with it) or file (a file in plans/ that no session has the text of)
--   path (path, detail): the file it was saved to
--   slug (text, detail): the session's nickname, which is also the name of the file
--   session_id (id, always): the session that made the plan or began with it
-- filters: since=updated_at project=session_id session=session_id
-- one row per: plans ORDER BY updated_at DESC, id DESC
-- example: ctxdb query plan_texts --limit 5
SELECT l.updated_at, p.name AS project,
  trim(ltrim(substr(l.text, 1, instr(l.text || char(10), char(10)) - 1), '# ')) AS title,
  l.text, length(CAST(l.text AS BLOB)) AS bytes, l.source, l.path, l.slug, l.session_id
FROM plans l
LEFT JOIN sessions s ON s.id = l.session_id
LEFT JOIN projects p ON p.id = s.project_id
ORDER BY l.updated_at DESC, l.id DESC
