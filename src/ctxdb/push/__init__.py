"""Send the rows of a database to a team's PostgreSQL, session by session."""
