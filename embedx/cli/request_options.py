"""The options and arguments of a command that are no settings: made from the fields of its request,
or from its signature, with the texts in its docstring.
"""

import ast
import copy
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any

import typer
from typer.models import ArgumentInfo

from embedx.cli.requests import parameters_of, request_of

# Options that several commands have: the section of the help, and the text.
SHARED = {
    "train_labels": ("Data", "file with the labels of the training data, if they are not in it"),
    "test": ("Data", "labelled data to score the classifier on"),
    "test_labels": ("Data", "file with the labels of --test, if they are not in it"),
    "objective": (
        "Objective",
        "output layer; by default ns, hs for sessions; `embedx objectives` lists all",
    ),
    "output": ("Output", "folder to write; by default named after the input"),
    "start": ("Continuing from a model", None),
    "overwrite": ("Output", "overwrite the output, after the new one is complete"),
    "cache_dir": (
        "Output",
        "folder of encoded corpora; by default $EMBEDX_CACHE_DIR or ~/.cache/embedx",
    ),
    "dry_run": ("Output", "print the settings and end, without training"),
    "log_json": ("Output", "append progress to this file, a JSON object per line"),
    "as_json": ("Output", "print one JSON object"),
    "quiet": ("Output", "show only warnings and errors on standard error"),
    "verbose": ("Output", "show all settings, memory and disk, not only changed settings"),
    "pairs": ("Held-out data", "word pairs with scores, instead of the packaged sets"),
    "analogies": (
        "Held-out data",
        "analogy questions in Google's format, instead of the packaged sets",
    ),
    "checkpoint_every": (
        "Long runs",
        "time between checkpoints, such as 10m; 0: only when interrupted",
    ),
    "resume": ("Long runs", "resume from the last checkpoint, if there is one"),
    "top_k": (None, "number of results to list"),
    "vectors": (None, "input, output or sum (of both); the last two need a model folder"),
    "trust_pickle": (None, "open gensim's own format, a pickle, which can run arbitrary code"),
}
METAVARS = {
    **dict.fromkeys(
        ("train_labels", "test", "test_labels", "label_names", "start", "pairs"), "path"
    ),
    **dict.fromkeys(
        ("links", "non_links", "node_labels", "next_item", "histories", "predictions"), "path"
    ),
    "objective": "name",
    "objectives": "name,...",
    "exclude": "word,...",
    "checkpoint_every": "duration",
    "text_column": "name",
    "id_column": "name",
    "against": "path",
    "text": "corpus",
}
FLAGS = {"output": ("-o",), "quiet": ("-q",), "verbose": ("-v",), "top_k": ("-k",)}
OPTION_NAMES = {"as_json": "--json"}


def documented(command: Callable[..., None]) -> tuple[str, dict[str, str]]:
    """The help of a command: its docstring without the list of parameters, and the text of each
    parameter in that list, or in the docstring of the request that the command takes.
    """
    names = {parameter.name for parameter in parameters_of(command)}
    text, texts = _divided(docstring_of(command), names)
    request = request_of(command)
    if request is not None:
        texts |= _divided(docstring_of(request), names)[1]
    return text, texts


def _divided(docstring: str, names: Collection[str]) -> tuple[str, dict[str, str]]:
    """A docstring without its list of parameters, and the text of each parameter in that list."""
    rest: list[str] = []
    texts: dict[str, str] = {}
    last = None
    for line in docstring.splitlines():
        match = re.fullmatch(r"(\w+)  +(.+)", line)
        if match and match[1] in names:
            last = match[1]
            texts[last] = match[2]
        elif last and line.startswith("  "):
            texts[last] += f" {line.strip()}"
        else:
            assert line.partition(" ")[0] not in names, f"two blanks after the name: {line}"
            last = None
            rest.append(line)
    return "\n".join(rest).strip(), texts


def with_formats(texts: Mapping[str, str]) -> dict[str, str]:
    """The texts with the formats of labelled data, whose readers need numba, in place of
    {formats}.
    """
    if not any("{formats}" in text for text in texts.values()):
        return dict(texts)
    from embedx.labeled import formats

    return {name: text.replace("{formats}", formats.names()) for name, text in texts.items()}


def docstring_of(documented_object: Callable[..., Any]) -> str:
    """The docstring of a function or class, read from its source under `python -OO`, which drops
    them.
    """
    if sys.flags.optimize < 2:
        return inspect.getdoc(documented_object) or ""
    definition = ast.parse(textwrap.dedent(inspect.getsource(documented_object))).body[0]
    assert isinstance(definition, ast.FunctionDef | ast.ClassDef)
    return ast.get_docstring(definition) or ""


def as_option(parameter: inspect.Parameter, texts: Mapping[str, str]) -> inspect.Parameter:
    """A parameter as typer wants it: an argument if it has no default, else an option."""
    name = parameter.name
    kind = parameter.annotation
    about = typer.Argument() if parameter.default is parameter.empty else typer.Option()
    if hasattr(kind, "__metadata__"):
        about = copy.copy(kind.__metadata__[0])
        kind = kind.__origin__

    panel, text = SHARED.get(name, (None, None))
    about.help = texts.get(name, text)
    about.rich_help_panel = panel
    if isinstance(about, ArgumentInfo):
        about.rich_help_panel = "Arguments"
        about.metavar = name.upper()
    else:
        about.metavar = f"<{METAVARS[name]}>" if name in METAVARS else None
        about.param_decls = (
            OPTION_NAMES.get(name, f"--{name.replace('_', '-')}"),
            *FLAGS.get(name, ()),
        )
    return parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[kind, about])


def keyword(name: str, annotation: Any, default: Any = None) -> inspect.Parameter:
    """A parameter of a command that is an option."""
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )
