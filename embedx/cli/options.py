"""Options and arguments that several commands have."""

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
Model = Annotated[
    str, typer.Argument(metavar="MODEL", help="model folder, or a vector file of another program, such as word2vec's")
]
TopK = Annotated[int, typer.Option("--top-k", min=1, help="how many words to list")]
WhichVectors = Annotated[
    str, typer.Option("--vectors", help="of a word: input, output, or sum, the two added; the last two from a model folder")
]
TrustPickle = Annotated[
    bool, typer.Option("--trust-pickle", help="open files of gensim's own format, which may run any code that is in them")
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="replace what is there, once the new is complete", rich_help_panel="Output")
]
CheckpointEvery = Annotated[
    str,
    typer.Option(
        "--checkpoint-every",
        help="how often the state of the run is saved beside the output; 0 for only when it is interrupted",
        rich_help_panel="Long runs",
    ),
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="go on from where the same command was when it ended, if it left its state",
        rich_help_panel="Long runs",
    ),
]
LogJson = Annotated[
    Path | None,
    typer.Option("--log-json", help="append a JSON object for each interval to this file", rich_help_panel="Output"),
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="TOML file of options, such as epochs = 5; those typed come first",
        rich_help_panel="Settings in a file",
    ),
]
SaveConfig = Annotated[
    Path | None,
    typer.Option(
        "--save-config",
        help="write the options of this run, but for those of its output, as such a file",
        rich_help_panel="Settings in a file",
    ),
]

TestLabels = Annotated[
    str | None, typer.Option("--test-labels", help="labels of --test, where it holds none", rich_help_panel="Data")
]
