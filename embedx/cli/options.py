"""Options and arguments that several commands have."""

import contextlib
import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from embedx.errors import EmbedxError
from embedx.settings import check, param


def number(kind: type[int] | type[float], flag: str, **limits: float) -> Callable[[Any], Any]:
    """How to read the number typed for an option; `limits` are those of `param`. One from a file is a number already."""
    field: dataclasses.Field[Any] = param(0, "", **{"at_most": math.inf, **limits})  # type: ignore[arg-type]
    field.name, field.type = flag.removeprefix("--"), kind

    def read(value: Any) -> Any:
        with contextlib.suppress(ValueError):  # `check` says what is wanted
            value = kind(value) if isinstance(value, str) else value
        check(field, value)
        return value

    read.__name__ = "integer" if kind is int else "float"  # in the help
    return read


def path_for(flag: str) -> Callable[[str], Path]:
    """How to read the path typed for an option; an empty one would be the working folder."""

    def path(text: str) -> Path:
        if not text:
            raise EmbedxError(f"{flag} '': an empty name; name a file or folder, or leave {flag} out")
        return Path(text)

    return path


Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="show only warnings and errors on standard error", rich_help_panel="Output")
]
Verbose = Annotated[
    bool,
    typer.Option("--verbose", "-v", help="show all settings, not only those other than the defaults", rich_help_panel="Output"),
]
Json = Annotated[bool, typer.Option("--json", help="print one JSON object", rich_help_panel="Output")]
CacheDir = Annotated[
    Path | None,
    typer.Option(
        "--cache-dir",
        parser=path_for("--cache-dir"),
        help="where encoded corpora are kept; by default $EMBEDX_CACHE_DIR, ~/.cache/embedx",
        rich_help_panel="Output",
    ),
]
Model = Annotated[
    str, typer.Argument(metavar="MODEL", help="model folder, or a vector file of another program, such as word2vec's")
]
TopK = Annotated[int, typer.Option("--top-k", parser=number(int, "--top-k", at_least=1), help="how many words to list")]
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
    typer.Option(
        "--log-json",
        parser=path_for("--log-json"),
        help="append a JSON object for each interval to this file",
        rich_help_panel="Output",
    ),
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
