"""Find migrations/ and sql/, which live at the top of the repository and inside the wheel.

They are looked for next to this file and not through importlib.resources: an editable install
copies them into site-packages once and never again, while ``__file__`` still points at the
checkout, where the live ones are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

from ctxdb.errors import IncompleteInstallation

AssetName = Literal["migrations", "sql"]
ASSET_NAMES: tuple[AssetName, ...] = get_args(AssetName)

_PACKAGE = Path(__file__).resolve().parent


def asset_dir(name: AssetName, package: Path = _PACKAGE) -> Path:
    """Return the folder of that name, from the wheel if this is one, else from the checkout.

    Glob for what you want in it (``[0-9]*.sql``): pip leaves a ``__pycache__`` there.
    """
    installed = package / "_assets" / name
    if installed.is_dir():
        return installed
    # src/ctxdb -> the checkout. The pyproject.toml beside it keeps us from taking some stranger's
    # folder that happens to be called sql/ two levels above site-packages.
    checkout = package.parents[1]
    if (checkout / "pyproject.toml").is_file() and (checkout / name).is_dir():
        return checkout / name
    raise IncompleteInstallation(name, [installed, checkout / name])
