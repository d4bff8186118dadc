"""A script that makes the team's views in DuckDB, over the files of a dataset.

The views are the same files as those for PostgreSQL (sql/postgres/views/), and a request counts
once by the same rule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxdb.push.server_schema import better_row, counted_rows, team_views
from ctxdb.team.tables import team_tables

if TYPE_CHECKING:
    from pathlib import Path

_HEAD = """-- The views of a team, over this dataset. In DuckDB: .read ctxdb.duckdb.sql
-- If the dataset is moved, put its new place (a folder, or s3://...) for the old one in this file.
CREATE SCHEMA IF NOT EXISTS ctxdb;
"""


def duckdb_script(folder: Path) -> str:
    """The script for a dataset in a folder."""
    parts = [_HEAD]
    for name in ["machines", *(table.name for table in team_tables())]:
        files = f"{folder}/table={name}/*/*/*.parquet".replace("'", "''")
        parts.append(
            f"CREATE OR REPLACE VIEW ctxdb._{name} AS SELECT * FROM read_parquet('{files}',"
            " hive_partitioning = true, hive_types_autocast = false, union_by_name = true);\n"
        )
    for table in team_tables():
        names = ", ".join(f't."{column.name}"' for column in table.columns)
        better = better_row(table).replace(' COLLATE "C"', "")
        parts.append(
            f"CREATE OR REPLACE VIEW ctxdb.{table.name} AS SELECT t.session_id, t.key, t.machine,"
            f" {names} FROM {counted_rows(table)} t WHERE NOT EXISTS"
            f" (SELECT 1 FROM {counted_rows(table)} o WHERE {better});\n"
        )
    for view in team_views():
        if view.name != "machines":
            sql = view.sql.rstrip().rstrip(";")
            parts.append(f"CREATE OR REPLACE VIEW ctxdb.{view.name} AS\n{sql};\n")
    parts.append(
        "CREATE OR REPLACE VIEW ctxdb.machines AS"
        " SELECT machine, name, person, team, level, version FROM ctxdb._machines;\n"
    )
    return "\n".join(parts)
