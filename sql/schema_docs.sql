-- Every table, view and column of this database, in words.
--   kind: table or view
--   name: its name
--   column: the column, empty for the table or view itself
--   description: what it means
SELECT kind, name, "column", description
FROM _schema_docs
WHERE name NOT LIKE '\_%' ESCAPE '\'
ORDER BY kind, name, position
