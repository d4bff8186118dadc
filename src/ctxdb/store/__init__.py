"""The database: connections, schema, and everything that is written in one transaction."""
