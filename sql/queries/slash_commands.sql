-- Which slash commands and skills are used, how often, and what do they cost?
--   name (text): the command or skill
--   kind (text): command (a person typed it) or skill (the model chose it)
--   uses (number): how many times it was used
--   sessions (number): how many sessions used it
--   cost_usd (money, always): cost in USD of the requests that the command began; NULL if none has a price, and for skills, which are part of another request
--   last_used_at (time): when it was last used
--   example (text): the last use, with its arguments
--   requests_unpriced (number, detail): billed requests without a price; the cost does not include them
--   requests_not_final (number, detail): billed requests whose output count is only a lower bound
-- :since (since) = 90d: from when
-- filters: until=turns.started_at,tool_uses.started_at project=turns.session_id,tool_uses.session_id session=turns.session_id,tool_uses.session_id
-- example: ctxdb query slash_commands -p since 2025-01-01
SELECT substr(t.prompt, 1, instr(replace(t.prompt, char(10), ' ') || ' ', ' ') - 1) AS name, 'command' AS kind, count(*) AS uses, count(DISTINCT t.session_id) AS sessions,
  CASE WHEN count(c.turn_id) = 0 THEN 0.0 ELSE sum(c.cost) / 1e12 END AS cost_usd, max(t.started_at) AS last_used_at, t.prompt AS example,
  coalesce(sum(c.requests_unpriced), 0) AS requests_unpriced, coalesce(sum(c.requests_not_final), 0) AS requests_not_final
FROM turns t
LEFT JOIN (
  SELECT turn_id, sum(cost) AS cost, count(*) - count(price_id) AS requests_unpriced, count(*) - sum(output_is_final) AS requests_not_final
  FROM _costs
  WHERE turn_id IN (SELECT id FROM turns WHERE kind = 'command' AND started_at >= :since)
  GROUP BY turn_id
) c ON c.turn_id = t.id
WHERE t.kind = 'command' AND t.started_at >= :since
GROUP BY 1
UNION ALL
SELECT u.target, 'skill', count(*), count(DISTINCT u.session_id), NULL, max(u.started_at), u.input, NULL, NULL
FROM tool_uses u
WHERE u.name IN ('Skill', 'SlashCommand') AND u.started_at >= :since
GROUP BY u.target
ORDER BY uses DESC, name
