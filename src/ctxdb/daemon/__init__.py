"""The daemon: what is appended to a transcript is in the database a moment later.

Events from the file system are hints, a look by stat is the truth::

    watch (events) ─────┐
    rescan (stat)  ─────┼─► queue of files ─► slice: one transaction ─► database
    signals, timers ────┘                        │
                                                 └─► health (what `ctxdb status` shows)

One thread does all of it, slice after slice; watchdog's threads only add paths to a set and wake
that thread. A slice reads a bounded number of bytes of each file, so that a huge file never keeps
the others waiting. A slice keeps nothing for the next one: offsets are in the database, and a slice
that fails (database locked, disk full, file replaced) is done again.
"""
