"""The state of a run in a file: its arrays, and "tree", the JSON of the values that they are part
of.
"""

import json
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from embedx.runtime import atomic
from embedx.settings import Options, Record
from embedx.storage.description import as_json_types
from embedx.training.state import TrainState

# What reading a damaged file raises.
DAMAGED = (OSError, ValueError, KeyError, IndexError, TypeError, EOFError, zipfile.BadZipFile)
# The key of an array's number in JSON.
ARRAY = "__array__"


class StoredState(NamedTuple):
    """A state as a file has it.

    values    by name, as in `TrainState`
    identity  what the run depends on, mainly its data, as JSON types
    at        when it was written
    """

    values: Options
    identity: Options
    at: str


def write_state(file: Path, stored: StoredState) -> None:
    """Write a state to a new file."""
    arrays: dict[str, np.ndarray] = {}

    def number_of(array: Any) -> dict[str, int]:
        number = len(arrays)
        arrays[f"array{number}"] = np.asarray(array)
        return {ARRAY: number}

    text = json.dumps(stored._asdict(), default=number_of).encode()
    with atomic.replacing(file, file.with_suffix(".partial")) as out:
        np.savez(out, allow_pickle=False, tree=np.frombuffer(text, np.uint8), **arrays)


def read_state(file: Path, state: TrainState) -> StoredState:
    """The content of a file, with values of the same types as in `state`. Raises one of
    DAMAGED.
    """
    with file.open("rb") as opened, np.load(opened, allow_pickle=False) as arrays:

        def with_array(value: Record) -> Any:
            if value.keys() != {ARRAY}:
                return value
            return arrays[f"array{value[ARRAY]}"][()]

        tree: Record = json.loads(bytes(arrays["tree"]), object_hook=with_array)
    values = {
        name: _with_tuples(tree["values"][name], value.read())
        for name, value in state.values.items()
    }
    return StoredState(values, tree["identity"], tree["at"])


def _with_tuples(value: Any, like: Any) -> Any:
    """A value from JSON, which has lists only, with tuples where `like`, the value that it
    replaces, has tuples.
    """
    if isinstance(like, tuple):
        parts = [_with_tuples(part, like_part) for part, like_part in zip(value, like, strict=True)]
        is_named = hasattr(like, "_fields")
        return type(like)(*parts) if is_named else tuple(parts)
    if isinstance(like, list) and like:
        return [_with_tuples(item, like[0]) for item in value]
    return value


def json_types(value: Any) -> Any:
    """A value after a round trip through JSON."""
    return json.loads(json.dumps(value, default=as_json_types))
