"""A second copy of the database and its archive, in a folder of its own.

- `ctxdb.db` is a copy of the whole database as of one moment.
- `ctxdb.db.archive` is brought up to date: only frames and blocks that are new are copied, and what
  is no longer in the archive is dropped.
- `backup.json` says when and of what it was made, and the checksum of the database.

So the folder can be used like any database: `ctxdb --db DIR/ctxdb.db query ...`. Whenever a backup
is killed, the folder holds the last good one: the archive is changed in one transaction, then the
copy of the database gets its name.
"""
