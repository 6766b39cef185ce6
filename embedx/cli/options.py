"""Options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="print one JSON object", rich_help_panel="Output")]
CacheDir = Annotated[
    Path | None,
    typer.Option(
        "--cache-dir",
        help="where encoded corpora are kept; by default $EMBEDX_CACHE_DIR, ~/.cache/embedx",
        rich_help_panel="Output",
    ),
]
