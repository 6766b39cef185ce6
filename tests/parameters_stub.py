"""The types of the Python interface's parameters, for type checkers and editors, from the declarations of the settings.

`python -m tests.parameters_stub` writes them anew; test_typed.py fails where that was forgotten.
"""

import dataclasses
import json
import sys
from pathlib import Path

from embedx import objectives, parameters
from embedx.api import CLASSIFY
from embedx.classification.estimator import FIELDS, OTHER_NAMES, PARAMETERS
from embedx.settings import kind_of
from embedx.skipgram import estimator as skipgram

ROOT = Path(parameters.__file__).parent
HEAD = '''"""Types of parameters, from the declarations of settings; `python -m tests.parameters_stub` writes this file."""

# fmt: off
# ruff: noqa
from os import PathLike
from typing import Literal, TypedDict
'''
ALSO = {
    "start": "PathLike[str]",
    "vocab": "PathLike[str]",
    "pretrained": "PathLike[str]",
    "validation": "float",
    "neighbours": "int",
}
SWITCHES = {name: f"Literal[{', '.join(map(str, values))}]" for name, values in parameters.SWITCHES.items()}


def type_of(name, field):
    """`Literal["a", "b"] | None`, say; None is the default of all."""
    if choices := field.metadata["choices"]:
        quoted = ", ".join(json.dumps(each) for each in named(field, choices))
        return f"Literal[{quoted}] | None"
    kinds = filter(None, [kind_of(field).__name__, "str" * bool(field.metadata["parse"]), ALSO.get(name)])
    return " | ".join([*dict.fromkeys(kinds), "None"])


def named(field, choices):
    """The choices, with those of a setting of the same name of other objectives."""
    own = [each for objective in objectives.OBJECTIVES.values() for each in dataclasses.fields(objective.Settings)]
    others = [each.metadata["choices"] for each in own if each.name == field.name]
    return dict.fromkeys([*choices, *(each for some in others for each in some)])


def block(name, types):
    """The source of a TypedDict."""
    return "\n".join([f"\n\nclass {name}(TypedDict, total=False):", *(f"    {each}: {kind}" for each, kind in types.items())])


def stubs():
    """The source of each file."""
    ours = {name: type_of(name, field) for name, field in skipgram.FIELDS.items()}
    theirs = {name: ours[dim] for name, dim in parameters.GENSIM.items()} | SWITCHES
    fields = {name: type_of(name, field) for name, field in CLASSIFY.items()}
    own = {"n_jobs": "int | None", "random_state": "object", "verbose": "bool"}
    of_estimator = {name: own.get(name) or fields[name] for name in PARAMETERS}
    assert FIELDS.keys() - PARAMETERS.keys() >= OTHER_NAMES.keys()
    return {
        ROOT / "skipgram" / "parameters.pyi": HEAD + block("SkipGramParameters", ours | theirs) + "\n",
        ROOT / "classification" / "parameters.pyi": HEAD
        + block("ClassifierParameters", of_estimator) + block("ClassifyParameters", fields) + "\n",
    }  # fmt: skip


if __name__ == "__main__":
    for path, text in stubs().items():
        sys.stdout.write(f"{path}\n")
        path.write_text(text, "utf-8")
