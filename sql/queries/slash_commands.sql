-- Which slash commands and skills are used, how often, and what do they cost?
--   name: the command or skill
--   kind: command (a person typed it) or skill (the model chose it)
--   uses: how often
--   sessions: in how many sessions
--   cost_usd: cost of the requests that a command began, in USD; NULL for skills, which are part of a request
--   last_used_at: when last
--   example: the last one with its arguments
-- :since (time) = 90d: from when
-- filters: until=turns.started_at,tool_uses.started_at project=turns.session_id,tool_uses.session_id session=turns.session_id,tool_uses.session_id
-- example: ctxdb query slash_commands -p since 2025-01-01
SELECT substr(t.prompt, 1, instr(t.prompt || ' ', ' ') - 1) AS name, 'command' AS kind, count(*) AS uses, count(DISTINCT t.session_id) AS sessions,
  (
    SELECT coalesce(sum(c.cost), 0) / 1e12 FROM _costs c
    WHERE c.turn_id IN (
      SELECT n.id FROM turns n WHERE n.kind = 'command' AND n.started_at >= :since
        AND substr(n.prompt, 1, instr(n.prompt || ' ', ' ') - 1) = substr(t.prompt, 1, instr(t.prompt || ' ', ' ') - 1)
    )
  ) AS cost_usd,
  max(t.started_at) AS last_used_at, t.prompt AS example
FROM turns t
WHERE t.kind = 'command' AND t.started_at >= :since
GROUP BY 1
UNION ALL
SELECT u.target, 'skill', count(*), count(DISTINCT u.session_id), NULL, max(u.started_at), u.input
FROM tool_uses u
WHERE u.name IN ('Skill', 'SlashCommand') AND u.started_at >= :since
GROUP BY u.target
ORDER BY uses DESC, name
