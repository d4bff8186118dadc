"""Whether a program ran a session, or a person did."""

from __future__ import annotations

# Where CI services check out what they build: GitHub, GitLab, GitHub's containers.
CI_FOLDERS = ("/home/runner/", "/builds/", "/github/workspace/")


def is_automated(entrypoint: str | None, cwd: str | None, turn_kinds: set[str]) -> int | None:
    """1 for a program, 0 for a person, None when nothing says which.

    A desktop or an IDE sends what a person typed as `sdk` too, and names its entrypoint.
    """
    if entrypoint is not None and entrypoint.startswith("sdk-"):
        return 1
    if entrypoint is None and turn_kinds == {"sdk"}:
        return 1
    if cwd is not None and f"{cwd}/".startswith(CI_FOLDERS):
        return 1
    return 0 if turn_kinds else None
