"""Our token counts and costs beside those of ccusage, and why they differ where they do.

    python bench/crosscheck.py [FOLDER of projects]

Without a folder: the corpus beside the checkout, else the demo set. ccusage comes from npm, by name
and version, into a temporary folder. Every difference has to follow from a rule that is applied
here to the same lines; what is left must be zero, and costs may differ by one percent at most.
Exits 1 if anything is left, or if there was nothing to compare.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections import defaultdict
from contextlib import closing
from pathlib import Path

import corpus
from tree import CHECKOUT, Tree, reader

PEER = ("ccusage@20.0.24", "@ccusage/ccusage-linux-x64@20.0.24")
KINDS = ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read")
SHOWN = ("input", "output", "cache write", "cache read")
MOST = 0.01  # of the cost

Tokens = dict[str, int]  # by kind
ByModel = dict[str, Tokens]


class Peer:
    """What ccusage says, by model: input, output, cache write, cache read and cost."""

    def __init__(self, folder: Path, root: Path) -> None:
        npm = shutil.which("npm")
        if npm is None:
            sys.exit("crosscheck needs npm, to get ccusage")
        subprocess.run(
            [npm, "install", "--silent", "--no-audit", "--no-fund", "--prefix", folder, *PEER],
            check=True,
        )
        config = folder / "config"
        config.mkdir()
        (config / "projects").symlink_to(root)
        done = subprocess.run(
            [folder / "node_modules/.bin/ccusage", "claude", "daily", "--offline", "--json"],
            env={**os.environ, "HOME": str(folder), "CLAUDE_CONFIG_DIR": str(config)},
            check=True,
            capture_output=True,
        )
        self.tokens: dict[str, list[int]] = defaultdict(lambda: [0] * 4)
        self.cost: dict[str, float] = defaultdict(float)
        names = ("inputTokens", "outputTokens", "cacheCreationTokens", "cacheReadTokens")
        for day in json.loads(done.stdout)["daily"]:
            for row in day["modelBreakdowns"]:
                model = row["modelName"]
                for place, name in enumerate(names):
                    self.tokens[model][place] += row[name]
                self.cost[model] += row["cost"]


def ours(conn: sqlite3.Connection) -> tuple[ByModel, dict[str, float]]:
    """Our sums by model."""
    sums = ", ".join(f"sum({kind}_tokens)" for kind in KINDS)
    tokens: ByModel = {}
    cost = {}
    for model, usd, *found in conn.execute(
        f"SELECT model, sum(cost) / 1e12, {sums} FROM _costs GROUP BY model"  # noqa: S608
    ):
        tokens[model] = dict(zip(KINDS, found, strict=True))
        cost[model] = usd
    return tokens, cost


# -- the rules by which we differ: what ccusage has more (or less, below zero) ---------------------


def without_request_id(conn: sqlite3.Connection) -> ByModel:
    """R2b: ccusage keys a main-thread `msg_` line without requestId by its time as well."""
    more: ByModel = defaultdict(lambda: dict.fromkeys(KINDS, 0))
    names = ", ".join(f"l.{kind}_tokens" for kind in KINDS)
    seen: set[tuple[str, str]] = set()
    for key, model, at, *tokens in conn.execute(
        f"SELECT l.request_key, l.model, m.timestamp, {names} FROM _usage_lines l"  # noqa: S608
        " JOIN messages m ON m.id = l.message_id WHERE l.request_id IS NULL AND l.part = 0"
        " AND l.api_message_id LIKE 'msg\\_%' ESCAPE '\\' AND m.is_sidechain = 0"
        " ORDER BY l.request_key, m.timestamp, l.output_tokens DESC"
    ):
        if (key, at) in seen:
            continue
        if any(known == key for known, _ in seen):
            for kind, number in zip(KINDS, tokens, strict=True):
                more[model][kind] += number
        seen.add((key, at))
    return more


def written_with_spaces(conn: sqlite3.Connection) -> ByModel:
    """JSON with spaces: ccusage only looks at lines with `"usage":{` in them."""
    more: ByModel = defaultdict(lambda: dict.fromkeys(KINDS, 0))
    spaced = set()
    for file_id, path in conn.execute("SELECT id, path FROM source_files"):
        data = Path(path).read_bytes()
        if b'"usage": {' in data and b'"usage":{' not in data:
            spaced.add(file_id)
    names = ", ".join(f"u.{kind}_tokens" for kind in KINDS)
    files = ",".join(map(str, spaced))
    for model, *tokens in conn.execute(
        f"SELECT u.model, {names} FROM usage u WHERE NOT EXISTS (SELECT 1 FROM _usage_lines l"  # noqa: S608
        " JOIN messages m ON m.id = l.message_id WHERE l.request_key = u.request_key"
        f" AND m.source_file_id NOT IN ({files}))"
    ):
        for kind, number in zip(KINDS, tokens, strict=True):
            more[model][kind] -= number
    return more


def split_is_smaller(conn: sqlite3.Connection) -> ByModel:
    """R6: the split of cache writes lacks what was written around an advisor call.

    ccusage adds up the split, we take the whole where that is more; the rest is of five minutes.
    """
    more: ByModel = defaultdict(lambda: dict.fromkeys(KINDS, 0))
    seen = set()
    for key, model, path, start, length in conn.execute(
        "SELECT l.request_key, l.model, f.path, m.byte_start, m.byte_length FROM _usage_lines l"
        " JOIN messages m ON m.id = l.message_id JOIN source_files f ON f.id = m.source_file_id"
        " JOIN usage u ON u.request_key = l.request_key WHERE l.part = 0 ORDER BY l.message_id"
    ):
        if key in seen:
            continue
        seen.add(key)
        with Path(path).open("rb") as file:
            file.seek(start)
            entry = json.loads(file.read(length))
        usage = (entry.get("message") or entry["data"]["message"]["message"])["usage"]
        split = usage.get("cache_creation")
        if isinstance(split, dict):
            missing = usage.get("cache_creation_input_tokens", 0) - sum(
                split.get(f"ephemeral_{long}_input_tokens") or 0 for long in ("5m", "1h")
            )
            more[model]["cache_write_5m"] -= max(missing, 0)
    return more


RULES = {
    "R2b: `msg_` lines without requestId are one request": without_request_id,
    "JSON with spaces is read": written_with_spaces,
    "R6: all cache writes count, split or not": split_is_smaller,
}


# -- side by side ----------------------------------------------------------------------------------


def four(tokens: Tokens) -> list[int]:
    """As ccusage has it: one sort of cache write."""
    write = tokens["cache_write_5m"] + tokens["cache_write_1h"]
    return [tokens["input"], tokens["output"], write, tokens["cache_read"]]


def compare(conn: sqlite3.Connection, peer: Peer) -> int:
    """Print both, explain, and return how many differences are left."""
    tokens, cost = ours(conn)
    explained = {words: rule(conn) for words, rule in RULES.items()}
    prices = {
        model: dict(zip(KINDS, found, strict=True))
        for model, *found in conn.execute(
            f"SELECT model, {', '.join(KINDS)} FROM _rates GROUP BY model"  # noqa: S608
        )
    }
    if not tokens or not peer.tokens:
        sys.exit("nothing to compare: one of the two found no requests")
    left = 0
    print(f"{'model':28}{'':9}" + "".join(f"{name:>14}" for name in SHOWN) + f"{'USD':>12}")
    for model in sorted({*tokens, *peer.tokens}):
        mine = four(tokens.get(model, dict.fromkeys(KINDS, 0)))
        theirs = list(peer.tokens[model])
        expected, usd = list(mine), cost.get(model) or 0.0
        _row(model, "ctxdb", mine, usd)
        _row("", "ccusage", theirs, peer.cost[model])
        for words, by_model in explained.items():
            more = by_model.get(model)
            if more is None or not any(more.values()):
                continue
            change = four(more)
            worth = sum(more[kind] * prices.get(model, {}).get(kind, 0) for kind in KINDS) / 1e12
            _row("", "explained", change, worth, words)
            expected = [a + b for a, b in zip(expected, change, strict=True)]
            usd += worth
        rest = [a - b for a, b in zip(theirs, expected, strict=True)]
        if any(rest):
            left += 1
            _row("", "LEFT", rest, peer.cost[model] - usd)
        elif abs(peer.cost[model] - usd) > MOST * max(usd, peer.cost[model]):
            left += 1
            print(f"{'':28}cost differs by more than {MOST:.0%}: {usd:.6f} expected")
    return left


def _row(model: str, who: str, tokens: list[int], usd: float, words: str = "") -> None:
    print(
        f"{model:28}{who:9}"
        + "".join(f"{number:>14,}" for number in tokens)
        + f"{usd:>12.4f}"
        + (f"  {words}" if words else "")
    )


def main() -> None:
    """Compare."""
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=Path, nargs="?", help="a projects folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ctxdb-crosscheck-") as name:
        folder = Path(name)
        root = options.root
        if root is None:
            corpus.originals(folder)
            root = folder / "originals/projects"
        db = folder / "ctxdb.db"
        Tree("now", CHECKOUT, folder).sync(db, root.absolute())
        peer = Peer(folder, root.absolute())
        with closing(reader(db)) as conn:
            left = compare(conn, peer)
    print(f"differences left: {left}")
    sys.exit(1 if left else 0)


if __name__ == "__main__":
    main()
