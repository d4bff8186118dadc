-- Every table, view and column of this database, in words.
--   kind (text): table or view
--   name (text): name of the table or view
--   column (text): the column; empty for the table or view itself
--   description (text): what the column, table or view means
-- example: ctxdb query "SELECT * FROM schema_docs WHERE name = 'tool_uses'"
SELECT kind, name, "column", description
FROM _schema_docs
WHERE name NOT LIKE '\_%' ESCAPE '\'
ORDER BY kind, name, position
