"""What a team gets of a database: which rows and columns, at which level, from which machine."""
