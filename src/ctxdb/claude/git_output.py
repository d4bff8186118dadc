"""Commits, pushes and pull requests: what the tool reports, and what git and gh print."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ctxdb.claude.values import dict_of, int_of, text_of

# The fields are kind, sha, branch, number, url and subject, and as source `result` or `text`.
GitOp = tuple[str, str | None, str | None, int | None, str | None, str | None, str]

# [main 1a2b3c4] The subject; [main (root-commit) 1a2b3c4]; [detached HEAD 1a2b3c4]. A part of the
# branch may be masked: [redacted:rule].
_COMMIT = re.compile(
    r"^\[(?:detached HEAD|((?:[^\[\]\s]|\[[\w:-]+\])+))(?: \(root-commit\))? ([0-9a-f]{7,40})\]"
    r"(?: ([^\r\n]*))?\r?$",
    re.MULTILINE,
)
_PUSH = re.compile(
    r"^ [ *+=]? ?(?:\[new branch\]|[0-9a-f]{7,40}\.{2,3}[0-9a-f]{7,40}) +(\S+) -> (\S+)",
    re.MULTILINE,
)
_PULL = re.compile(r"https://[^\s/]+/[^\s/]+/[^\s/]+/pull/(\d{1,18})\b")
_COMMAND_ENDS = re.compile(r"[\n|;&]+")
_GIT = re.compile(r"\bgit\b")
_SAYS_PUSH = re.compile(r"\bpush\b")
_RUNS_PULL = re.compile(r"\bgh\s+pr\s+create\b")
# A command of these alone makes no commit: a line that it prints is quoted from somewhere.
_ONLY_READS = re.compile(
    r"\s*(?:(?:bat|cat|cd|column|cut|echo|egrep|grep|head|jq|less|ls|more|nl|printf|pwd|rg|sort"
    r"|tail|tr|true|uniq|wc|Get-Content|Select-String|type)(?:\s|$)"
    r"|git(?:\s+(?:-C\s+\S+|--no-pager|-c\s+\S+))*\s+"
    r"(?:blame|cat-file|diff|grep|log|reflog|shortlog|show|status)(?:\s|$)|$)"
)


def git_operations(reported: Any) -> list[GitOp] | None:
    """What toolUseResult.gitOperation says."""
    detail = dict_of(reported)
    found: list[GitOp] = []
    if commit := dict_of(detail.get("commit")):
        sha, branch = text_of(commit.get("sha")), text_of(commit.get("branch"))
        found.append(("commit", sha, branch, None, None, None, "result"))
    if push := dict_of(detail.get("push")):
        branch = text_of(push.get("branch"))
        found.append(("push", None, branch, None, None, None, "result"))
    if pull := dict_of(detail.get("pr")):
        number, url = int_of(pull.get("number")), text_of(pull.get("url"))
        found.append(("pr", None, None, number, url, None, "result"))
    return found or None


def git_from_text(
    command_of: Callable[[], str | None], output: str | None, *, failed: bool
) -> list[GitOp]:
    """What a shell command and its output show. The command is asked for where it matters.

    git prints `[branch sha] subject` for each commit, whatever command makes it commit and however
    that command ends. Where `gh pr create` failed, the address it prints is that of a pull request
    which was there already.
    """
    if not output:
        return []
    found: list[GitOp] = []
    if (output[0] == "[" or "\n[" in output) and (commits := _printed_commits(output)):
        if _only_reads(command_of() or ""):
            return []
        found += commits
    if " -> " in output and _pushes(command_of() or ""):
        found += [("push", None, m[2], None, None, None, "text") for m in _PUSH.finditer(output)]
    if (
        not failed
        and "/pull/" in output
        and _RUNS_PULL.search(command_of() or "")
        and (pull := _PULL.search(output))
    ):
        found.append(("pr", None, None, int(pull[1]), pull[0], None, "text"))
    return found


def with_printed(reported: list[GitOp], printed: list[GitOp]) -> list[GitOp]:
    """The reported operations, and those printed ones that say more.

    A report names one commit at most, and no subject. Of pushes and pull requests, the report says
    everything.
    """
    if not reported:
        return printed
    commits = {sha: one for one in printed for kind, sha, *_ in [one] if kind == "commit"}
    found: list[GitOp] = []
    for kind, sha, said_branch, number, url, said_subject, source in reported:
        branch, subject = said_branch, said_subject
        same = next((one for one in commits if kind == "commit" and _same_sha(sha, one)), None)
        if same is not None:
            _, _, printed_branch, _, _, subject, _ = commits.pop(same)
            branch = branch or printed_branch
        found.append((kind, sha, branch, number, url, subject, source))
    return found + list(commits.values())


def _same_sha(one: str | None, other: str | None) -> bool:
    """Whether two hashes, perhaps of different length, name one commit."""
    return bool(one and other) and (
        str(one).startswith(str(other)) or str(other).startswith(str(one))
    )


def _printed_commits(output: str) -> list[GitOp]:
    """The commits that git printed, each once."""
    found: dict[str, GitOp] = {}
    for match in _COMMIT.finditer(output):
        branch, sha, subject = match.groups()
        operation: GitOp = ("commit", sha, branch, None, None, subject or None, "text")
        found.setdefault(sha, operation)
    return list(found.values())


def _pushes(command: str) -> bool:
    return any(
        (git := _GIT.search(part)) and _SAYS_PUSH.search(part, git.end())
        for part in _COMMAND_ENDS.split(command)
    )


def _only_reads(command: str) -> bool:
    """Whether no part of a command can make a commit."""
    if not command or "$(" in command or "`" in command:
        return False
    return all(_ONLY_READS.match(part) for part in _COMMAND_ENDS.split(command))
