-- Which sessions continue which: resumed, forked and cleared sessions, and plans that were carried out, as chains from the first one?
--   root_session_id (id, detail): the first known session of the chain
--   depth (number): 0 for the root, 1 for the sessions that continue it, and so on
--   session_id (id, always): the session
--   parent_session_id (id, detail): the session that it continues, which may be missing from the database
--   relation (text): how it continues the other: resume, fork, clear or plan (it carries out a plan that the other made); NULL for a root
--   project (text): name of the project
--   title (text, about): its title
--   started_at (time): when it began
--   ended_at (time): when it ended
--   shared_messages (number): messages that it shows but that an earlier session owns
--   parent_known (number): 1 if the parent is in the database, 0 if not, NULL for a root
-- filters: since=ended_at until=started_at project=session_id session=session_id
-- example: ctxdb query session_lineage --limit 20
WITH RECURSIVE lineage AS (
  SELECT s.id AS root_session_id, s.started_at AS began, 0 AS depth, s.id AS session_id, '' AS place
  FROM sessions s
  WHERE (s.parent_session_id IS NULL AND s.id IN (SELECT parent_session_id FROM sessions))
    OR (s.parent_session_id IS NOT NULL AND s.parent_session_id NOT IN (SELECT id FROM sessions))
  UNION ALL
  SELECT l.root_session_id, l.began, l.depth + 1, s.id, l.place || '/' || coalesce(s.started_at, '') || s.id
  FROM lineage l
  JOIN sessions s ON s.parent_session_id = l.session_id AND s.id <> l.session_id
  WHERE l.depth < 1000
)
SELECT l.root_session_id, l.depth, l.session_id, s.parent_session_id, s.relation, p.name AS project,
  coalesce(s.title, '(untitled)') AS title, s.started_at, s.ended_at,
  coalesce(c.messages, 0) AS shared_messages,
  CASE WHEN s.parent_session_id IS NOT NULL THEN EXISTS (SELECT 1 FROM sessions q WHERE q.id = s.parent_session_id) END AS parent_known
FROM lineage l
JOIN sessions s ON s.id = l.session_id
LEFT JOIN projects p ON p.id = s.project_id
LEFT JOIN (SELECT session_id, count(DISTINCT message_id) AS messages FROM _shared_lines GROUP BY session_id) c ON c.session_id = l.session_id
ORDER BY l.began DESC, l.root_session_id, l.place
