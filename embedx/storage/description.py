"""The description of a model folder, model.json: a JSON object with a checksum."""

import json
import re
import zlib
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray

from embedx.errors import DataError, public_url
from embedx.runtime import atomic
from embedx.settings import Options, Record
from embedx.storage.folder_files import DESCRIPTION, damaged, reading, shortened
from embedx.storage.schema import FolderSchema

FORMAT = 1
# The JSON objects of a description, and its required keys.
PARTS = ("names", "arrays", "settings", "facts")
REQUIRED_KEYS = ("format", *PARTS, "task")
# By the task of a model, for messages about one of another task.
COMMANDS_OF_TASK = {"skipgram": "`embedx nn`", "classification": "`embedx predict`"}
# Names of arrays and stems of names, which cannot lead out of the folder.
PLAIN_NAME = re.compile(r"[a-z][a-z0-9_]*")


def read_description(path: Path) -> Record:
    """The content of model.json, with checks of its list of files."""
    file = path / DESCRIPTION
    with reading(file):
        description = json.loads(file.read_bytes())
        if not isinstance(description, dict):
            raise ValueError("it is not a JSON object")
        missing = [key for key in REQUIRED_KEYS if key not in description]
        if missing:
            raise KeyError(missing[0])
        version = description["format"]
        if version != FORMAT:
            problem = f"format {shortened(version)}, while this embedx reads format {FORMAT}"
            raise DataError(file, None, problem, "upgrade embedx")
        checksum = checksum_of(description)
        if description.get("checksum", checksum) != checksum:
            raise ValueError("its checksum differs")
        if not _describes_files(description):
            raise ValueError("it does not describe files as `embedx` does")
        return description


def _describes_files(description: Record) -> bool:
    """Whether the parts of a description are JSON objects, and its names those of files."""
    if not all(isinstance(description[part], dict) for part in PARTS):
        return False
    names = (*description["names"], *description["arrays"])
    return all(PLAIN_NAME.fullmatch(name) for name in names)


def read_described(path: Path, schema: FolderSchema) -> Record:
    """The content of model.json, checked against the schema of its task."""
    file = path / DESCRIPTION
    description = read_description(path)
    task = description["task"]
    if task != schema.task:
        problem = f"a model of the task {shortened(task)!r}"
        remedy = f"give one that {schema.source}"
        if task in COMMANDS_OF_TASK:
            remedy += f"; for this one there is {COMMANDS_OF_TASK[task]}"
        raise DataError(file, None, problem, remedy)
    problem = schema.missing(description) or schema.wrong_values(description)
    if problem:
        raise damaged(file, problem)
    return description


def facts_of(description: Options) -> Record:
    """The facts of a run, with the version of embedx that wrote them and when."""
    return {
        "version": description.get("embedx"),
        "created": description.get("created"),
        **description["facts"],
    }


def checksum_of(description: Options) -> int:
    """CRC-32 of the content of model.json without its checksum."""
    rest = {name: value for name, value in description.items() if name != "checksum"}
    return zlib.crc32(json.dumps(rest, sort_keys=True).encode())


def description_text(description: Options) -> str:
    """A description as the text of model.json."""
    content = json.loads(json.dumps(description, default=as_json_types))
    return json_text({**content, "checksum": checksum_of(content)})


def json_text(value: Options) -> str:
    """A value as indented JSON in valid UTF-8: undecodable file names are written with escapes,
    from which they can be restored.
    """
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    return atomic.utf8(text).decode()


def as_json_types(value: Any) -> Any:
    """numpy's numbers and arrays, and paths, as JSON types."""
    if isinstance(value, np.generic | ndarray):
        return value.tolist()
    return str(value)


def without_secrets(value: Any) -> Any:
    """The value of a setting, with URLs without secrets."""
    return public_url(value) if isinstance(value, str) else value


def installed_version() -> str:
    try:
        return metadata.version("embedx")
    except metadata.PackageNotFoundError:
        return "unknown"
