"""Find migrations/ and sql/, which are at the top of the repository and inside the wheel.

They are looked for next to this file and not through importlib.resources. An editable install
copies them into site-packages only once, while ``__file__`` points at the checkout, where the
current ones are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

from ctxdb.errors import IncompleteInstallation

AssetName = Literal["migrations", "sql"]
ASSET_NAMES: tuple[AssetName, ...] = get_args(AssetName)

_PACKAGE = Path(__file__).resolve().parent


def asset_dir(name: AssetName, package: Path = _PACKAGE) -> Path:
    """Return the folder of that name: of the wheel if this is one, else of the checkout.

    Select the files in it by pattern (``[0-9]*.sql``): pip leaves a ``__pycache__`` there.
    """
    installed = package / "_assets" / name
    if installed.is_dir():
        return installed
    # src/ctxdb -> the checkout. Without a pyproject.toml beside it, a folder called sql/ two levels
    # above site-packages belongs to another program.
    checkout = package.parents[1]
    if (checkout / "pyproject.toml").is_file() and (checkout / name).is_dir():
        return checkout / name
    raise IncompleteInstallation(name, [installed, checkout / name])
