"""The types of the Python interface's parameters, for type checkers and editors, from the
declarations of the settings.

`python -m tests.parameters_stub` writes them anew; test_typed.py fails where that was forgotten.
"""

import json
from pathlib import Path

from embedx import parameters
from embedx.api import CLASSIFY
from embedx.classification.estimator import PARAMETERS
from embedx.settings import value_type
from embedx.skipgram import estimator as skipgram

ROOT = Path(parameters.__file__).parent
HEAD = '''"""Types of parameters, from the declarations of settings.

`python -m tests.parameters_stub` writes this file.
"""

from os import PathLike
from typing import Literal, TypedDict
'''
HEAD_OF_LABELS = HEAD.replace(
    "from os import PathLike\nfrom typing import Literal",
    "from collections.abc import Mapping\nfrom os import PathLike\nfrom typing import Any, Literal",
)
ALSO = {
    **dict.fromkeys(("start", "vocab", "pretrained"), "PathLike[str]"),
    "validation": "float",
    "neighbours": "int",
}


def type_of(name, field):
    """`Literal["a", "b"] | None`, say; None is the default of all."""
    choices = field.metadata["choices"]
    if choices:
        return f"Literal[{', '.join(map(json.dumps, choices))}] | None"
    kinds = filter(
        None, [value_type(field).__name__, "str" * bool(field.metadata["parse"]), ALSO.get(name)]
    )
    return " | ".join([*dict.fromkeys(kinds), "None"])


def block(name, types):
    """The source of a TypedDict."""
    return "\n".join(
        [
            f"\n\nclass {name}(TypedDict, total=False):",
            *(f"    {setting}: {kind}" for setting, kind in types.items()),
        ]
    )


def stubs():
    """The source of each file."""
    ours = {name: type_of(name, field) for name, field in skipgram.FIELDS.items()}
    ours |= {name: ours[dim] for name, dim in parameters.GENSIM.items()}
    ours |= {
        name: f"Literal[{', '.join(map(str, values))}]"
        for name, values in parameters.SWITCHES.items()
    }
    fields = {name: type_of(name, field) for name, field in CLASSIFY.items()}
    types = {
        "class_weight": 'Literal["balanced"] | Mapping[Any, float] | None',
        "n_jobs": "int | None",
        "random_state": "object",
        "score_function": fields["score"],
        "verbose": "bool",
    }
    labels = block(
        "ClassifierParameters", {name: types.get(name) or fields[name] for name in PARAMETERS}
    )
    return {
        ROOT / "skipgram" / "parameters.pyi": f"{HEAD}{block('SkipGramParameters', ours)}\n",
        ROOT / "classification" / "parameters.pyi": (
            f"{HEAD_OF_LABELS}{labels}{block('ClassifyParameters', fields)}\n"
        ),
    }


if __name__ == "__main__":
    for path, text in stubs().items():
        path.write_text(text, "utf-8")
