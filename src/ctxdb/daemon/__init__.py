"""The daemon: what is appended to a transcript is in the database a moment later.

Events from the file system are hints, a look by stat is the truth::

    watching (events) ──┐
    rescan (stat)  ─────┼─► queue of files ─► turn: one transaction ─► database
    signals, timers ────┘                        │
                                                 └─► health (what `ctxdb status` shows)

One thread does all of it, turn after turn; watchdog's threads only add paths to a set and wake it.
A turn takes a bounded number of bytes of each file, so that a huge one never keeps the others
waiting. Nothing that a turn knows outlives it: offsets are in the database, and a turn that fails
(locked, disk full, file replaced) is simply done again.
"""
