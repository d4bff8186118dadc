-- What did people say: prompts, commands, answers to questions, reasons for refusing?
--   timestamp (time): when it was said; newest first
--   project (text): name of the project
--   kind (text): prompt, command, shell, queued, sdk (as turns.kind), answer or refusal; prompt for what only history.jsonl has
--   text (text, about): what was said
--   about (text): the question that is answered, or the tool and target that are refused
--   source (text): transcript, or history for a line of history.jsonl that no transcript has
--   session_id (id, always): the session
--   turn_id (id, detail): the human request that it is, or that it belongs to
--   tool_use_id (id, detail): the call that asked, or that was refused
--   tool_id (id, detail): the row of tool_uses for that call; tool_use_id need not be unique
-- filters: since=timestamp project=session_id session=session_id
-- period: 30d
-- example: ctxdb query prompts --since 7d
SELECT said.timestamp, coalesce(p.name, said.folder) AS project, said.kind, said.text, said.about, said.source, said.session_id, said.turn_id, said.tool_use_id, said.tool_id
FROM (
  SELECT started_at AS timestamp, kind, prompt AS text, NULL AS about, session_id, id AS turn_id, NULL AS tool_use_id, NULL AS tool_id, 0 AS place, 'transcript' AS source, NULL AS folder
  FROM turns
  UNION ALL
  -- "Question"="answer", "Next question"="next answer". You can now continue ...
  -- Answers can have quotes and full stops in them. An answer ends where the next question begins, or at the last
  -- occurrence of these words: a character that no text has marks them, and it is searched from the end.
  SELECT finished_at, 'answer', trim(substr(answer, 1, length(answer) - (substr(answer, -1) = '"'))), question, session_id, turn_id, tool_use_id, tool_id, 1 + nth, 'transcript', NULL
  FROM (
    SELECT *, CASE
        WHEN next > 0 THEN substr(rest, 1, next - 1)
        WHEN instr(marked, char(1114111)) > 0 THEN
          replace(substr(marked, 1, length(rtrim(marked, replace(marked, char(1114111), ''))) - 1), char(1114111), words) || iif(words = '".', '"', '')
        ELSE rest
      END AS answer
    FROM (
      SELECT *, replace(rest, words, char(1114111)) AS marked,
        (
          SELECT min(instr(rest, ', "' || json_extract(o.value, '$.question') || '"="')) FROM json_each(questions) o
          WHERE o.type = 'object' AND instr(rest, ', "' || json_extract(o.value, '$.question') || '"="') > 0
        ) AS next
      FROM (
        SELECT *, CASE WHEN instr(rest, '. You can now continue') > 0 THEN '. You can now continue' ELSE '".' END AS words
        FROM (
          SELECT u.finished_at, u.session_id, u.turn_id, u.tool_use_id, u.id AS tool_id, json_extract(q.value, '$.question') AS question, q.key AS nth,
            json_extract(u.input, '$.questions') AS questions,
            substr(u.result_text, instr(u.result_text, '"' || json_extract(q.value, '$.question') || '"="')
              + length(json_extract(q.value, '$.question')) + 4) AS rest
          FROM tool_uses u, json_each(CASE WHEN json_valid(u.input) THEN u.input ELSE '{}' END, '$.questions') q
          WHERE u.name = 'AskUserQuestion' AND u.status = 'ok' AND q.type = 'object'
            AND instr(u.result_text, '"' || json_extract(q.value, '$.question') || '"="') > 0
        )
      )
    )
  )
  UNION ALL
  SELECT finished_at, 'refusal', text, about, session_id, turn_id, tool_use_id, tool_id, 1, 'transcript', NULL
  FROM (
    SELECT u.finished_at, u.session_id, u.turn_id, u.tool_use_id, u.id AS tool_id, u.name || coalesce(': ' || u.target, '') AS about, trim(coalesce(
      CASE WHEN instr(u.result_text, 'the user said:' || char(10)) > 0
        THEN substr(u.result_text, instr(u.result_text, 'the user said:' || char(10)) + 15) END,
      CASE WHEN json_valid(m.data) THEN json_extract(m.data, '$.userFeedback') END)) AS text
    FROM tool_uses u
    LEFT JOIN messages m ON m.id = u.result_message_id
    WHERE u.status = 'rejected' AND u.status <> 'ok'
  )
  WHERE text <> '' AND text NOT LIKE 'The user wants to clarify these questions.%'
  UNION ALL
  SELECT timestamp, 'prompt', prompt, NULL, session_id, NULL, NULL, NULL, 0, 'history', replace(project_path, rtrim(project_path, replace(project_path, '/', '')), '')
  FROM history
  WHERE turn_id IS NULL
) said
LEFT JOIN sessions s ON s.id = said.session_id
LEFT JOIN projects p ON p.id = s.project_id
ORDER BY said.timestamp DESC, said.turn_id DESC, said.place
