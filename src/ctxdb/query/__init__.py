"""Questions to the database from a shell: read-only, limited, and laid out for people or programs.

::

    what was asked ──► filters ──► build ──► guard ──► run ──► formats ──► standard output
    (name, options)    where it    one       a connection    rows     table, json, jsonl,
                       narrows     statement that cannot              csv, md, plot
                                             write or hang

Before that, ``fresh`` takes in what is new. None of these modules imports anything heavy: the
answer has to be there before the person looks up.
"""
