-- Roles for a team's ctxdb. Run it once as the owner of the schema, after the first push:
--   psql "$URL" -v ON_ERROR_STOP=1 -f roles.sql
-- It can be run any number of times. After an upgrade of ctxdb, the owner's next push makes the views
-- again and runs it again.
--
-- ctxdb_writer  may push. A member sees and changes only the machines that it has pushed itself.
-- ctxdb_reader  may read the views. Numbers, names and paths of all machines are visible to it.
--               What people and models wrote is visible only to the role that pushed it, and to
--               roles that are members of that role.
--
-- Give each machine (or each person) a login role of its own:
--   CREATE ROLE ada LOGIN PASSWORD '...' IN ROLE ctxdb_writer, ctxdb_reader;
SET client_min_messages TO warning;
DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'ctxdb_writer') THEN
    CREATE ROLE ctxdb_writer NOLOGIN;
  END IF;
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'ctxdb_reader') THEN
    CREATE ROLE ctxdb_reader NOLOGIN;
  END IF;
END $$;

GRANT USAGE ON SCHEMA ctxdb TO ctxdb_writer, ctxdb_reader;
REVOKE ALL ON ALL TABLES IN SCHEMA ctxdb FROM PUBLIC, ctxdb_reader, ctxdb_writer;
REVOKE ALL ON FUNCTION ctxdb._forget(text, text[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ctxdb._forget(text, text[]) TO ctxdb_writer;
GRANT SELECT ON ctxdb._settings TO ctxdb_writer;
GRANT SELECT, DELETE ON ctxdb._forgotten TO ctxdb_writer;

-- The machines that the current role has pushed, or a role that it is a member of.
CREATE OR REPLACE VIEW ctxdb._own_machines AS
SELECT machine FROM ctxdb._machines m
WHERE EXISTS (SELECT FROM pg_roles r WHERE r.rolname = m.role AND pg_has_role(current_user, r.oid, 'USAGE'));
GRANT SELECT ON ctxdb._own_machines TO ctxdb_writer, ctxdb_reader;

DO $$
DECLARE
  one record;
  own text := 'machine IN (SELECT machine FROM ctxdb._own_machines)';
BEGIN
  FOR one IN
    SELECT c.relname AS name, c.relkind AS kind
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'ctxdb' AND c.relkind IN ('r', 'p', 'v')
  LOOP
    IF one.kind = 'v' THEN
      IF one.name NOT LIKE '\_%' THEN
        EXECUTE format('GRANT SELECT ON ctxdb.%I TO ctxdb_reader, ctxdb_writer', one.name);
      END IF;
      CONTINUE;
    END IF;
    EXECUTE format('ALTER TABLE ctxdb.%I ENABLE ROW LEVEL SECURITY', one.name);
    EXECUTE format('DROP POLICY IF EXISTS writer ON ctxdb.%I', one.name);
    EXECUTE format('DROP POLICY IF EXISTS reader ON ctxdb.%I', one.name);
    EXECUTE format('DROP POLICY IF EXISTS undo ON ctxdb.%I', one.name);
    IF one.name = '_settings' THEN
      CREATE POLICY writer ON ctxdb._settings FOR SELECT TO ctxdb_writer USING (true);
    ELSIF one.name = '_forgotten' THEN
      CREATE POLICY writer ON ctxdb._forgotten FOR SELECT TO ctxdb_writer USING (true);
      EXECUTE format('CREATE POLICY undo ON ctxdb._forgotten FOR DELETE TO ctxdb_writer USING (%s)', own);
    ELSIF one.name = '_machines' THEN
      GRANT SELECT, INSERT, UPDATE, DELETE ON ctxdb._machines TO ctxdb_writer;
      GRANT SELECT (machine, name, person, team, level, version, first_pushed_at, pushed_at)
        ON ctxdb._machines TO ctxdb_reader;
      CREATE POLICY writer ON ctxdb._machines TO ctxdb_writer
        USING (EXISTS (SELECT FROM pg_roles r WHERE r.rolname = role AND pg_has_role(current_user, r.oid, 'USAGE')))
        WITH CHECK (role = current_user);
      CREATE POLICY reader ON ctxdb._machines FOR SELECT TO ctxdb_reader USING (true);
    ELSE
      EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON ctxdb.%I TO ctxdb_writer', one.name);
      EXECUTE format('CREATE POLICY writer ON ctxdb.%I TO ctxdb_writer USING (%s) WITH CHECK (%2$s)', one.name, own);
      EXECUTE format('GRANT SELECT ON ctxdb.%I TO ctxdb_reader', one.name);
      EXECUTE format('CREATE POLICY reader ON ctxdb.%I FOR SELECT TO ctxdb_reader USING (%s)', one.name,
        CASE WHEN one.name LIKE '%\_text' THEN own ELSE 'true' END);
    END IF;
  END LOOP;
END $$;
