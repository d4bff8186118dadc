"""The files of the demo's imaginary projects before the first session."""

from __future__ import annotations

FILES = {
    "code/tidepool/tidepool/clock.py": '''\
"""Local times of high and low water."""

from datetime import datetime, timedelta


def to_local(when, offset_hours):
    return when + timedelta(hours=offset_hours)


def parse(text):
    return datetime.strptime(text, "%Y-%m-%d %H:%M")


def label(when):
    return when.strftime("%a %d %b, %H:%M")
''',
    "code/tidepool/tidepool/table.py": '''\
"""Print a tide table."""

from tidepool.clock import label


def rows(station, tides):
    for tide in tides:
        yield station, label(tide.when), f"{tide.height:.1f} m"


def render(station, tides):
    return "\\n".join("  ".join(row) for row in rows(station, tides))
''',
    "code/tidepool/tests/test_clock.py": """\
from datetime import datetime

from tidepool.clock import to_local


def test_winter():
    assert to_local(datetime(2025, 1, 5, 12), 0) == datetime(2025, 1, 5, 12)
""",
    "code/tidepool/README.md": "# tidepool\n\nTide tables for small boats, in the terminal.\n",
    "code/ferry/internal/relay/queue.go": """\
package relay

import "time"

type Parcel struct {
	ID      string
	Retries int
	NextTry time.Time
}

func backoff(retries int) time.Duration {
	return time.Duration(retries) * time.Second
}

func (q *Queue) Requeue(p Parcel) {
	p.Retries++
	p.NextTry = time.Now().Add(backoff(p.Retries))
	q.items = append(q.items, p)
}
""",
    "code/ferry/internal/relay/queue_test.go": """\
package relay

import "testing"

func TestRequeueCounts(t *testing.T) {
	q := &Queue{}
	q.Requeue(Parcel{ID: "p1"})
	if q.items[0].Retries != 1 {
		t.Fatal("retries not counted")
	}
}
""",
    "code/ferry/cmd/ferryd/main.go": """\
package main

import (
	"log"

	"ferry/internal/relay"
)

func main() {
	if err := relay.Serve(":7070"); err != nil {
		log.Fatal(err)
	}
}
""",
    "code/lantern/src/shelf.ts": """\
export interface Book {
  id: string;
  title: string;
  finished?: string;
}

export function unfinished(books: Book[]): Book[] {
  return books.filter((book) => !book.finished);
}

export function byTitle(books: Book[]): Book[] {
  return books.sort((a, b) => a.title.localeCompare(b.title));
}
""",
    "code/lantern/src/sync.ts": """\
import type { Book } from "./shelf";

export async function pull(url: string): Promise<Book[]> {
  const response = await fetch(`${url}/books`);
  return response.json();
}

export async function push(url: string, books: Book[]): Promise<void> {
  await fetch(`${url}/books`, { method: "PUT", body: JSON.stringify(books) });
}
""",
    "code/lantern/src/ShelfView.tsx": """\
import { byTitle, unfinished, type Book } from "./shelf";

export function ShelfView({ books }: { books: Book[] }) {
  return (
    <ul>
      {byTitle(unfinished(books)).map((book) => (
        <li key={book.id}>{book.title}</li>
      ))}
    </ul>
  );
}
""",
    "code/lantern/CLAUDE.md": "# lantern\n\nRun `npm test` before you say that something works.\n",
    "notes/sailing/checklist.md": (
        "# Before casting off\n\n- life jackets\n- radio check, channel 16\n"
    ),
}
FILES |= {
    name.replace("code/lantern/", "code/lantern/.claude/worktrees/offline/"): text
    for name, text in FILES.items()
    if name.startswith("code/lantern/")
}
