-- Every table, view and column of this database, in words.
--   kind (text): table or view
--   name (text): its name
--   column (text): the column, empty for the table or view itself
--   description (text): what it means
-- example: ctxdb query "SELECT * FROM schema_docs WHERE name = 'tool_uses'"
SELECT kind, name, "column", description
FROM _schema_docs
WHERE name NOT LIKE '\_%' ESCAPE '\'
ORDER BY kind, name, position
