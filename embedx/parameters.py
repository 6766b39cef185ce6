"""Parameters of the Python interface: made from the declarations of settings, by gensim's names
too, and as errors name them.

Their types, which type checkers and editors read, are in skipgram/parameters.pyi and
classification/parameters.pyi; `python -m tests.parameters_stub` writes these from the same
declarations.
"""

import dataclasses
import inspect
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import PurePath
from typing import Any

import numpy as np

from embedx import objectives, samplers
from embedx.errors import EmbedxError, near
from embedx.settings import Settings, kind_of

Fields = Mapping[str, "dataclasses.Field[Any]"]
GENSIM = {  # gensim's name of a setting
    "vector_size": "dim",
    "alpha": "learning_rate",
    "negative": "negatives",
    "workers": "threads",
    "iter": "epochs",
    "max_final_vocab": "max_vocab",
}
# gensim's: what each of their possible values asks for
SWITCHES: dict[str, dict[int, tuple[str, Any] | None]] = {
    "sg": {0: ("architecture", "cbow"), 1: ("architecture", "skipgram")},
    "hs": {0: None, 1: ("objective", "hs")},
    "cbow_mean": {1: None},
}


def fields_of(*groups: type[Settings], is_of_words: bool) -> dict[str, "dataclasses.Field[Any]"]:
    """The settings of these classes, of samplers and of all objectives, by name; those of
    objectives apply to one task.
    """
    found = {field.name: field for group in groups for field in dataclasses.fields(group)}
    found |= {
        field.name: field
        for each in samplers.SAMPLERS.values()
        for field in dataclasses.fields(each.Settings)
    }
    for each in objectives.OBJECTIVES.values():
        unused = each.label_settings if is_of_words else each.word_settings
        found |= {
            field.name: field
            for field in dataclasses.fields(each.Settings)
            if field.name not in unused
        }
    return found


@cache
def objectives_own() -> frozenset[str]:
    """The names of the settings that are objectives' own, whose defaults are theirs too."""
    return frozenset(
        field.name
        for each in objectives.OBJECTIVES.values()
        for field in dataclasses.fields(each.Settings)
    )


def signature(first: Mapping[str, Any], defaults: Mapping[str, Any]) -> inspect.Signature:
    """Of a constructor with the parameters `first`, and others by name alone, with
    their defaults.
    """
    made = inspect.Parameter
    found = [made("self", made.POSITIONAL_ONLY)]
    found += [
        made(name, made.POSITIONAL_OR_KEYWORD, default=value) for name, value in first.items()
    ]
    return inspect.Signature(
        [
            *found,
            *(made(name, made.KEYWORD_ONLY, default=value) for name, value in defaults.items()),
        ]
    )


def check_names(owner: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise TypeError for a parameter that there is not."""
    known = list(known)
    if unknown := [name for name in given if name not in known]:
        remedy = (
            near(unknown[0], known, "").strip() or f"its settings are {', '.join(sorted(known))}"
        )
        raise TypeError(f"{owner} takes no {', '.join(unknown)}; {remedy}")


def without_gensims_names(given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings by our names. Raises TypeError for one that is given twice, and ValueError for
    what is not possible here.
    """
    found = {
        name: value for name, value in given.items() if name not in GENSIM and name not in SWITCHES
    }
    for name, value in given.items():
        if name in SWITCHES and value not in SWITCHES[name]:
            raise ValueError(f"{name}={value!r}: must be {' or '.join(map(str, SWITCHES[name]))}")
        pair = (
            SWITCHES[name][value]
            if name in SWITCHES
            else (GENSIM[name], value)
            if name in GENSIM
            else None
        )
        if pair is None or (name == "negative" and not value):  # which gensim takes with hs=1
            continue
        ours, wanted = pair
        if found.setdefault(ours, wanted) != wanted:
            raise TypeError(
                f"{name}={value!r} and {ours}={found[ours]!r} are the same setting; give one of"
                " them"
            )
    if "alpha" in given:  # a rate of word2vec, whose optimiser that is
        found.setdefault("optimizer", "sgd")
    return found


def settled(given: Mapping[str, Any], fields: Fields) -> dict[str, Any]:
    """The settings that are not None, as plain Python values, strings read as on the
    command line.
    """
    found = {}
    for name, value in given.items():
        if value is None or name not in fields:
            continue
        # from a search; the record is JSON
        value = value.item() if isinstance(value, np.generic) else value
        field = fields[name]
        if (
            kind_of(field) is str
            and isinstance(value, int | float | PurePath)
            and not isinstance(value, bool)
        ):
            value = str(value)  # a share of the rows instead of a file, say
        parse = field.metadata["parse"]
        found[name] = parse(value) if parse and isinstance(value, str) else value
    return found


# ---- errors


@contextmanager
def python_names(others: Mapping[str, str] | None = None) -> Iterator[None]:
    """Errors that are raised inside name settings as Python does, by their `others` where they have
    other names.
    """
    try:
        yield
    except EmbedxError as error:
        error.names = others or {}
        raise
