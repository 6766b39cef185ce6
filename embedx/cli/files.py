"""The arguments of commands that name files: those that are read, and those that are written."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from embedx.errors import DataError, Setting
from embedx.storage.outputs import check_not_read

INPUTS = frozenset(
    {
        "against",
        "analogies",
        "config",
        "corpora",
        "corpus",
        "data",
        "histories",
        "input",
        "label_names",
        "links",
        "model",
        "models",
        "next_item",
        "node_labels",
        "node_types",
        "non_links",
        "pairs",
        "predictions",
        "pretrained",
        "pretrained_vectors",
        "read_vocab",
        "table",
        "test",
        "test_labels",
        "text",
        "train",
        "train_labels",
        "validation",
        "validation_labels",
        "vocab",
    }
)
OUTPUTS = ("log_json", "out", "output", "per_label", "save_vocab")


def check_outputs(arguments: Mapping[str, Any]) -> None:
    """Raise `DataError` if a command would write to a file that it reads, or two things to one
    file.
    """
    outputs = {name: Path(arguments[name]) for name in OUTPUTS if arguments.get(name) is not None}
    if not outputs:
        return
    inputs = list(_inputs(arguments))
    setting_of_path: dict[str, str] = {}
    for name, path in outputs.items():
        other = setting_of_path.setdefault(os.path.realpath(path), name)
        if other != name:
            raise DataError(path, None, ("it is ", Setting(other), " too"), "name another file")
        if os.path.exists(path):
            check_not_read(path, [*inputs, *_files_of_recipes(inputs)])
            _check_not_standard_input(path)


def _inputs(arguments: Mapping[str, Any]) -> Iterator[str]:
    """What names the inputs of a command."""
    for name, value in arguments.items():
        if name in INPUTS and value is not None:
            yield from map(str, value if isinstance(value, list) else [value])


def _files_of_recipes(inputs: list[str]) -> Iterator[str]:
    """The files here of the corpora among the inputs that are known by name."""
    from embedx.text.sources import recipe_meant

    for name in inputs:
        recipe = recipe_meant(name)
        if recipe is not None:
            yield from map(str, recipe.files_here())


def _check_not_standard_input(path: Path) -> None:
    """Raise `DataError` if standard input comes from that file, as by `< FILE`."""
    try:
        is_input = os.path.samestat(os.fstat(0), path.stat())
    except OSError:
        return
    if is_input and path.is_file():
        raise DataError(path, None, "it is standard input", "write to another file")
