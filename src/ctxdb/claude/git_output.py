"""Commits, pushes and pull requests: what the tool reports, else what git and gh print."""

from __future__ import annotations

import re
from typing import Any

from ctxdb.claude.values import dict_of, int_of, text_of

GitOp = tuple[str, str | None, str | None, int | None, str | None]  # kind, sha, branch, number, url

_COMMIT = re.compile(
    r"^\[(?:detached HEAD|([^\]\s]+))(?: \(root-commit\))? ([0-9a-f]{7,40})\] ", re.MULTILINE
)
_PUSH = re.compile(
    r"^ [ *+=]? ?(?:\[new branch\]|[0-9a-f]{7,40}\.{2,3}[0-9a-f]{7,40}) +(\S+) -> (\S+)",
    re.MULTILINE,
)
_PULL = re.compile(r"https://[^\s/]+/[^\s/]+/[^\s/]+/pull/(\d{1,18})\b")
_COMMAND_ENDS = re.compile(r"[\n|;&]")
_GIT = re.compile(r"\bgit\b")
_SAYS_COMMIT = re.compile(r"\b(?:commit|cherry-pick|revert|merge)\b")  # all print the same line
_SAYS_PUSH = re.compile(r"\bpush\b")
_RUNS_PULL = re.compile(r"\bgh\s+pr\s+create\b")


def git_operations(reported: Any) -> list[GitOp] | None:
    """What toolUseResult.gitOperation says."""
    detail = dict_of(reported)
    found: list[GitOp] = []
    if commit := dict_of(detail.get("commit")):
        sha, branch = text_of(commit.get("sha")), text_of(commit.get("branch"))
        found.append(("commit", sha, branch, None, None))
    if push := dict_of(detail.get("push")):
        found.append(("push", None, text_of(push.get("branch")), None, None))
    if pull := dict_of(detail.get("pr")):
        found.append(("pr", None, None, int_of(pull.get("number")), text_of(pull.get("url"))))
    return found or None


def git_from_text(command: str | None, output: str | None, *, failed: bool) -> list[GitOp]:
    """What a shell command and its output show: git prints `[branch sha] subject` for a commit.

    A command that failed may have committed before it did. Where `gh pr create` failed, the address
    it prints is that of a pull request which was there already.
    """
    if not command or not output or ("git" not in command and "gh" not in command):
        return []
    found: list[GitOp] = []
    after_git = [
        (part, git.end()) for part in _COMMAND_ENDS.split(command) if (git := _GIT.search(part))
    ]
    if any(_SAYS_COMMIT.search(part, at) for part, at in after_git):
        found += [("commit", m[2], m[1], None, None) for m in _COMMIT.finditer(output)]
    if any(_SAYS_PUSH.search(part, at) for part, at in after_git):
        found += [("push", None, m[2], None, None) for m in _PUSH.finditer(output)]
    if not failed and _RUNS_PULL.search(command) and (pull := _PULL.search(output)):
        found.append(("pr", None, None, int(pull[1]), pull[0]))
    return found
