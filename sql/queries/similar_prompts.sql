-- Have I asked something like this before, and what came of it?
--   started_at (time): when it was asked
--   project (text): name of the project
--   prompt (text, about): what was asked; the best match is first
--   reply (text): the last thing that the model said in reply
--   words (number): how many of the given words it has
--   session_id (id, always): the session
--   turn_id (id, detail): the human request
-- :text: the prompt, or a few words of it
-- :limit = 10: how many prompts
-- filters: since=turns.started_at project=turns.session_id session=turns.session_id
-- example: ctxdb query similar_prompts -p text "offline shelf without a new dependency"
WITH RECURSIVE split(word, rest) AS ( -- each word becomes a phrase, so that nothing in it is syntax
  SELECT NULL, replace(replace(replace(replace(replace(replace(:text, char(10), ' '), char(9), ' '), '"', ' '), '、', ' '), '。', ' '), '，', ' ') || ' '
  UNION ALL
  SELECT substr(rest, 1, instr(rest, ' ') - 1), substr(rest, instr(rest, ' ') + 1) FROM split WHERE rest <> ''
),
parts AS MATERIALIZED (
  SELECT word, word GLOB '*' || one || '*' AS is_run, one -- Chinese, Japanese and Korean have no spaces between words
  FROM (
    SELECT DISTINCT lower(trim(word, char(13) || '.,;:!?()[]{}<>*`''/\|&=+-#…？！')) AS word,
      '[' || char(0x2e80) || '-' || char(0xd7ff) || char(0xf900) || '-' || char(0xfaff) || char(0x20000) || '-' || char(0x2ffff) || ']' AS one
    FROM split
  )
  WHERE word <> '' AND word NOT IN (
    'a', 'an', 'and', 'are', 'as', 'at', 'be', 'but', 'by', 'can', 'could', 'do', 'does', 'for', 'from', 'has', 'have', 'how', 'i', 'if', 'in', 'into', 'is',
    'it', 'its', 'me', 'my', 'not', 'of', 'on', 'or', 'our', 'please', 'should', 'so', 'than', 'that', 'the', 'then', 'there', 'these', 'this', 'to', 'us',
    'was', 'we', 'what', 'when', 'where', 'which', 'why', 'will', 'with', 'would', 'you', 'your')
),
pairs(word, at, one) AS ( -- so any two adjacent characters count as a word
  SELECT word, 1, one FROM parts WHERE is_run
  UNION ALL SELECT word, at + 1, one FROM pairs WHERE at + 2 <= length(word)
),
words AS MATERIALIZED (
  SELECT word, 0 AS is_pair FROM parts WHERE NOT is_run
  UNION SELECT substr(word, at, 2), 1 FROM pairs WHERE substr(word, at, 2) GLOB one || one OR length(word) = 1
  LIMIT 40
),
matched AS MATERIALIZED (
  SELECT t.id AS turn_id, w.word
  FROM words w CROSS JOIN messages_fts CROSS JOIN turns t ON t.message_id = messages_fts.rowid
  WHERE NOT w.is_pair AND messages_fts MATCH '{text} : "' || w.word || '"'
    AND (w.word GLOB '*[^a-z0-9]*' OR instr(lower(t.prompt), w.word) > 0) -- the message also has text that the client added
  UNION -- a prompt that waited in the queue has no message
  SELECT t.id, w.word
  FROM turns t CROSS JOIN words w
  WHERE t.message_id IS NULL AND NOT w.is_pair
    AND ' ' || lower(t.prompt) || ' ' GLOB '*[^a-z0-9]' || replace(replace(replace(w.word, '[', '[[]'), '*', '[*]'), '?', '[?]') || '[^a-z0-9]*'
  UNION
  SELECT t.id, w.word FROM words w CROSS JOIN turns t WHERE w.is_pair AND instr(t.prompt, w.word) > 0
),
best AS MATERIALIZED ( -- a word in few prompts weighs more, and so does a word in a short prompt
  SELECT m.turn_id, count(*) AS words, sum(w.weight) * 1000.0 / (1000 + length(t.prompt)) AS score
  FROM matched m
  JOIN (SELECT word, length((SELECT count(*) FROM turns) / count(*)) AS weight FROM matched GROUP BY word) w ON w.word = m.word
  JOIN turns t ON t.id = m.turn_id
  GROUP BY m.turn_id
  ORDER BY score DESC, m.turn_id
  LIMIT :limit
)
SELECT t.started_at, p.name AS project, t.prompt,
  (
    SELECT m.text FROM messages m
    WHERE m.turn_id = t.id AND m.kind = 'assistant' AND m.text IS NOT NULL AND m.is_sidechain = 0
      AND trim(m.text, char(9, 10, 13, 32)) <> ''
    ORDER BY m.source_file_id DESC, m.byte_start DESC LIMIT 1
  ) AS reply,
  b.words, t.session_id, t.id AS turn_id
FROM best b
JOIN turns t ON t.id = b.turn_id
LEFT JOIN sessions s ON s.id = t.session_id
LEFT JOIN projects p ON p.id = s.project_id
ORDER BY b.score DESC, t.id
