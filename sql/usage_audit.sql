-- How many lines of the transcripts report one billed request, and why?
--   why (text): told once: one line reports the request; streamed: one line per content block of a reply; repeated: lines of several sessions or agents report it; advisor: a call inside another request; copied: resumed or forked history; replayed: a side question that repeats the main thread
--   lines_each (number): how many lines report one request; for copied, how many copies; NULL if it varies
--   requests (number): requests to which this applies; a request that is streamed and copied is in both rows; for replayed, requests that are not counted at all
--   lines (number): all lines that report these requests
--   lines_folded (number): lines among these whose tokens are not counted again
--   output_tokens (tokens): output tokens that are counted
--   requests_unpriced (number, detail): billed requests whose model has no price
--   requests_not_final (number, detail): billed requests whose output count is only a lower bound, because the transcript never got the final count
--   example (text): the request_key of one of these requests
-- rows share requests: one request can be in several rows
-- example: ctxdb query usage_audit
WITH counted AS MATERIALIZED (
  SELECT instr(request_key, '|adv ') > 0 AS is_advisor, is_repeated, lines AS lines_each, count(*) AS requests, sum(output_tokens) AS output_tokens,
    count(*) - count(price_id) AS requests_unpriced, count(*) - sum(output_is_final) AS requests_not_final, max(id) AS one
  FROM _costs
  GROUP BY 1, 2, 3
)
SELECT CASE WHEN is_advisor THEN 'advisor' WHEN lines_each = 1 THEN 'told once' WHEN is_repeated THEN 'repeated' ELSE 'streamed' END AS why,
  lines_each, requests, requests * lines_each AS lines, requests * (lines_each - 1) AS lines_folded, output_tokens,
  requests_unpriced, requests_not_final, (SELECT u.request_key FROM usage u WHERE u.id = one) AS example
FROM counted
UNION ALL
SELECT 'copied', copies, count(*), sum(copies), sum(copies), sum(u.output_tokens), sum(u.price_id IS NULL),
  sum(u.output_is_final = 0), max(u.request_key)
FROM (
  SELECT l.request_key, count(*) AS copies
  FROM message_copies m JOIN _usage_lines l ON l.message_id = m.message_id
  GROUP BY l.request_key
) c
JOIN _costs u ON u.request_key = c.request_key
GROUP BY copies
UNION ALL
SELECT 'replayed', NULL, -- only if there are any
  (SELECT count(DISTINCT request_key) FROM _usage_lines) - used.requests,
  told.lines - used.lines, told.lines - used.lines, 0, 0, 0, NULL
FROM (SELECT count(*) AS lines FROM _usage_lines) told
JOIN (SELECT sum(requests) AS requests, sum(requests * lines_each) AS lines FROM counted) used
WHERE told.lines > used.lines
