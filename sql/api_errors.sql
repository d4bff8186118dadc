-- When did the API fail, and how: failures by local day and kind?
--   day (text): the local day; newest first
--   kind (text): what went wrong: overloaded, rate_limit, ConnectionRefused, ...
--   status (id): HTTP status, as the entry or its text says; NULL if there was no response
--   errors (number): failures: retried plus failed
--   retried (number): failures after which the client tried again
--   failed (number): failures that ended the API request and were shown
--   sessions (number): sessions that had them
--   first_at (time): the first of that day
--   last_at (time): the last of that day
--   message (text, outcome): one of the messages that were shown
-- filters: since=messages.timestamp project=messages.session_id session=messages.session_id
-- example: ctxdb query api_errors
SELECT date(timestamp, 'localtime') AS day, CASE WHEN kind GLOB '?*_error' AND kind <> 'api_error' THEN substr(kind, 1, length(kind) - 6) ELSE kind END AS kind,
  status, count(*) AS errors, sum(retried) AS retried, sum(NOT retried) AS failed,
  count(DISTINCT session_id) AS sessions, min(timestamp) AS first_at, max(timestamp) AS last_at, max(message) AS message
FROM (
  SELECT timestamp, session_id, subtype IS 'api_error' AS retried, CASE WHEN subtype IS 'api_error' THEN NULL ELSE text END AS message,
    coalesce(json_extract(data, '$.apiErrorStatus'), json_extract(data, '$.error.status'), json_extract(data, '$.errorInText.status')) AS status,
    coalesce(json_extract(data, '$.error.error.error.type'), json_extract(data, '$.error.error.type'),
      CASE WHEN json_type(data, '$.error') = 'text' THEN nullif(json_extract(data, '$.error'), 'unknown') END,
      json_extract(data, '$.cause.code'), json_extract(data, '$.error.cause.code'), json_extract(data, '$.error.code'),
      -- API Error: 529 {"type":"error","error":{"type":"overloaded_error", ...
      json_extract(data, '$.errorInText.kind'),
      CASE coalesce(json_extract(data, '$.apiErrorStatus'), json_extract(data, '$.error.status'), json_extract(data, '$.errorInText.status'))
        WHEN 429 THEN 'rate_limit' WHEN 529 THEN 'overloaded' WHEN 500 THEN 'api_error' END,
      'unknown') AS kind
  FROM messages
  WHERE kind IN ('system', 'interruption', 'synthetic') AND json_valid(data) AND (
    (kind = 'system' AND subtype = 'api_error') OR (kind = 'synthetic' AND (json_extract(data, '$.isApiErrorMessage') = 1 OR json_type(data, '$.errorInText') IS NOT NULL))
  )
)
GROUP BY 1, 2, 3
ORDER BY day DESC, errors DESC, kind, status
