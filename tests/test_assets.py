from __future__ import annotations

from pathlib import Path

import pytest

from ctxdb.assets import ASSET_NAMES, AssetName, asset_dir
from ctxdb.errors import IncompleteInstallation

CHECKOUT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("name", ASSET_NAMES)
def test_in_a_checkout_the_live_folder_is_used(name: AssetName) -> None:
    assert asset_dir(name) == CHECKOUT / name


@pytest.mark.parametrize("name", ASSET_NAMES)
def test_in_a_wheel_the_packaged_folder_is_used(tmp_path: Path, name: AssetName) -> None:
    package = tmp_path / "lib/site-packages/ctxdb"
    (package / "_assets" / name).mkdir(parents=True)
    assert asset_dir(name, package) == package / "_assets" / name


def test_a_strangers_folder_of_the_same_name_is_not_taken(tmp_path: Path) -> None:
    package = tmp_path / "lib/site-packages/ctxdb"
    package.mkdir(parents=True)
    (tmp_path / "lib/sql").mkdir()
    with pytest.raises(IncompleteInstallation, match=r"no sql/ in .*install it again"):
        asset_dir("sql", package)
