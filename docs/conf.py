"""How Sphinx makes a site of these pages: `make site`. Nothing is loaded from elsewhere."""

from ctxdb import __version__

project = "ctxdb"
author = "the authors of ctxdb"
copyright = "the authors of ctxdb; Apache License 2.0"  # noqa: A001
release = __version__
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "index"
exclude_patterns = ["schemas"]
html_theme = "furo"
html_title = f"ctxdb {__version__}"
html_copy_source = False
myst_heading_anchors = 4
# Links to files of the repository are not pages of the site.
suppress_warnings = ["myst.xref_missing", "myst.header"]
