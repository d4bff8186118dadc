-- Which machines push, whose are they, and how fresh are they?
--   machine: random id of the machine
--   name: its host name
--   person: the person, as its config says; perhaps a hash
--   team: the team, as its config says
--   level: what it sends: usage, metadata or full
--   version: the version of ctxdb that pushed last
--   first_pushed_at: when it pushed first
--   pushed_at: when it pushed last
SELECT machine, name, person, team, level, version, first_pushed_at, pushed_at
FROM ctxdb._machines
ORDER BY pushed_at DESC, machine
