-- Have I asked something like this before, and what came of it?
--   started_at: when it was asked
--   project: name of the project
--   prompt: what was asked, best match first
--   reply: the last thing the model said to it
--   words: how many of the words it has
--   session_id: the session
--   turn_id: the request
-- :text: the prompt, or a few words of it
-- :limit = 10: how many
-- filters: since=turns.started_at project=turns.session_id session=turns.session_id
-- example: ctxdb query similar_prompts -p text "offline shelf without a new dependency"
WITH RECURSIVE split(word, rest) AS ( -- every word as a phrase of its own, so that nothing in it is syntax
  SELECT NULL, replace(replace(replace(:text, char(10), ' '), char(9), ' '), '"', ' ') || ' '
  UNION ALL
  SELECT substr(rest, 1, instr(rest, ' ') - 1), substr(rest, instr(rest, ' ') + 1) FROM split WHERE rest <> ''
),
words AS MATERIALIZED (SELECT DISTINCT lower(word) AS word FROM split WHERE length(word) > 2 LIMIT 40),
found AS MATERIALIZED (
  SELECT rowid AS message_id, rank AS score FROM messages_fts
  WHERE messages_fts MATCH coalesce((SELECT '{text} : (' || group_concat('"' || word || '"', ' OR ') || ')' FROM words), '""')
  ORDER BY rank
)
SELECT t.started_at, p.name AS project, t.prompt,
  (
    SELECT m.text FROM messages m
    WHERE m.turn_id = t.id AND m.kind = 'assistant' AND m.text IS NOT NULL AND m.is_sidechain = 0
    ORDER BY m.source_file_id DESC, m.byte_start DESC LIMIT 1
  ) AS reply,
  (SELECT count(*) FROM words w WHERE instr(lower(t.prompt), w.word) > 0) AS words, t.session_id, t.id AS turn_id
FROM found f
JOIN turns t ON t.message_id = f.message_id
LEFT JOIN sessions s ON s.id = t.session_id
LEFT JOIN projects p ON p.id = s.project_id
ORDER BY f.score, t.id
LIMIT :limit
