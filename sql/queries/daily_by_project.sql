-- What did each project and model cost, by local day?
--   day (text): the local day; newest first
--   project (text, about): name of the project; if several projects have this name, with the folders above it
--   model (text): the model, as transcripts write it
--   requests (number): billed requests
--   prompt_tokens (tokens): input tokens, cache writes and cache reads together
--   cache_read_tokens (tokens): tokens read from the cache
--   output_tokens (tokens): output tokens, thinking included; a lower bound if requests_not_final is above 0
--   total_tokens (tokens, always): input, output, cache writes and cache reads together
--   cost_usd (money, always): cost in USD of the requests that have a price; NULL if none has one
--   requests_unpriced (number, detail): billed requests whose model has no price; cost_usd does not include them
--   requests_not_final (number, detail): billed requests whose output count is only a lower bound, because the transcript never got the final count
--   repo_path (path, detail): the folder of the project; NULL for requests without a project
-- filters: since=_costs.timestamp project=_costs.session_id session=_costs.session_id model=_costs.model
-- period: 30d
-- example: ctxdb query daily_by_project --since 7d
SELECT day, n.project, model, sum(requests) AS requests, sum(prompt_tokens) AS prompt_tokens, sum(cache_read_tokens) AS cache_read_tokens,
  sum(output_tokens) AS output_tokens, sum(prompt_tokens + output_tokens) AS total_tokens, sum(cost) / 1e12 AS cost_usd,
  sum(requests_unpriced) AS requests_unpriced, sum(requests_not_final) AS requests_not_final, r.repo_path
FROM (
  SELECT date(first_at, 'localtime') AS day, *
  FROM (
    SELECT min(timestamp) AS first_at, session_id, model, count(*) AS requests,
      sum(input_tokens + cache_write_5m_tokens + cache_write_1h_tokens + cache_read_tokens) AS prompt_tokens,
      sum(cache_read_tokens) AS cache_read_tokens, sum(output_tokens) AS output_tokens, sum(cost) AS cost,
      count(*) - count(price_id) AS requests_unpriced, count(*) - sum(output_is_final) AS requests_not_final
    FROM _costs
    GROUP BY quarter, model, session_id -- an index has this order; in every time zone, days begin at a quarter of an hour
  )
) u
LEFT JOIN sessions s ON s.id = u.session_id
LEFT JOIN projects r ON r.id = s.project_id
LEFT JOIN _project_names n ON n.repo_path = r.repo_path
GROUP BY day, r.repo_path, model
ORDER BY day DESC, sum(cost) DESC, n.project, model
