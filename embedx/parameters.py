"""Parameters of the Python interface, derived from the declarations of settings; gensim's names for
them; their names in errors.

Their types, for type checkers and editors, are in skipgram/parameters.pyi and
classification/parameters.pyi; `python -m tests.parameters_stub` writes these from the same
declarations.
"""

import copy
import dataclasses
import inspect
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import PurePath
from types import MappingProxyType
from typing import Any

import numpy as np

from embedx import objectives, samplers
from embedx.errors import EmbedxError, near
from embedx.objectives.contract import Objective
from embedx.settings import Settings, settings_of, value_type

Fields = Mapping[str, "dataclasses.Field[Any]"]
# Settings by gensim's names.
GENSIM = {
    "vector_size": "dim",
    "size": "dim",  # until gensim 4
    "alpha": "learning_rate",
    "negative": "negatives",
    "workers": "threads",
    "iter": "epochs",
    "max_final_vocab": "max_vocab",
}
# Parameters of gensim without an equal here, and what to do instead.
INSTEAD_OF_GENSIM = {
    "sentences": "give them to `fit`",
    "corpus_file": "give it to `fit`",
    "min_alpha": "leave it out: the learning rate falls to 0",
    "max_vocab_size": "`max_vocab` keeps the most frequent words",
    "ns_exponent": "give `sampler_exponent`",
    "compute_loss": "leave it out: `model.facts` has the loss",
    "callbacks": "give them to `fit`",
    "sorted_vocab": "leave it out: words are sorted by their counts",
    "shrink_windows": "leave it out: widths of windows are drawn",
    "min_n": "give `subwords`, such as '3-6'",
    "max_n": "give `subwords`, such as '3-6'",
    "bucket": "give `buckets`",
}
# By parameter of gensim: for each possible value the corresponding setting and its value.
SWITCHES: dict[str, dict[int, tuple[str, Any] | None]] = {
    "sg": {0: ("architecture", "cbow"), 1: ("architecture", "skipgram")},
    "hs": {0: None, 1: ("objective", "hs")},
    "cbow_mean": {1: None},
}


def fields_of(*groups: type[Settings], is_of_words: bool) -> dict[str, "dataclasses.Field[Any]"]:
    """The settings of these classes, of samplers and of all objectives for the task, by name.

    Of a setting that several declare, the first declaration counts, with the choices of all
    objectives, each of which checks its own.
    """
    fields: dict[str, dataclasses.Field[Any]] = {}
    for group in groups:
        for field in dataclasses.fields(group):
            fields.setdefault(field.name, field)
    for sampler in samplers.SAMPLERS.values():
        unused = () if is_of_words else sampler.word_settings
        for field in dataclasses.fields(sampler.Settings):
            if field.name not in unused:
                fields.setdefault(field.name, field)
    for objective in objectives.OBJECTIVES.values():
        for field in fields_of_objective(objective, is_of_words=is_of_words):
            first = fields.setdefault(field.name, field)
            if first.metadata["choices"] != field.metadata["choices"]:
                fields[field.name] = _with_choices_of_both(first, field)
    return fields


def fields_of_objective(
    objective: type[Objective], *, is_of_words: bool
) -> list["dataclasses.Field[Any]"]:
    """The settings of an objective that apply to the task."""
    unused = objective.label_settings if is_of_words else objective.word_settings
    return [field for field in dataclasses.fields(objective.Settings) if field.name not in unused]


def _with_choices_of_both(
    field: "dataclasses.Field[Any]", other: "dataclasses.Field[Any]"
) -> "dataclasses.Field[Any]":
    """The field with the choices of both."""
    joined = copy.copy(field)
    choices = dict.fromkeys((*field.metadata["choices"], *other.metadata["choices"]))
    joined.metadata = MappingProxyType({**field.metadata, "choices": tuple(choices)})
    return joined


@cache
def objective_settings() -> frozenset[str]:
    """The names of the settings declared by objectives, whose defaults differ by objective."""
    return frozenset(
        name
        for objective in objectives.OBJECTIVES.values()
        for name in settings_of(objective.Settings)
    )


def signature(first: Mapping[str, Any], defaults: Mapping[str, Any]) -> inspect.Signature:
    """The signature of a constructor with the parameters `first`, and keyword-only ones with their
    defaults.
    """
    parameter = inspect.Parameter
    parameters = [parameter("self", parameter.POSITIONAL_ONLY)]
    for name, default in first.items():
        parameters.append(parameter(name, parameter.POSITIONAL_OR_KEYWORD, default=default))
    for name, default in defaults.items():
        parameters.append(parameter(name, parameter.KEYWORD_ONLY, default=default))
    return inspect.Signature(parameters)


def check_names(
    owner: str,
    names: Iterable[str],
    known: Iterable[str],
    instead: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Raise TypeError for an unknown parameter.

    instead  by name, what to do in place of giving it
    """
    known = list(known)
    unknown = [name for name in names if name not in known]
    if unknown:
        remedy = instead.get(unknown[0]) or near(unknown[0], known, "").strip()
        if not remedy:
            remedy = f"its settings are {', '.join(sorted(known))}"
        raise TypeError(f"{owner} takes no {', '.join(unknown)}; {remedy}")


def without_gensim_names(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters with gensim's names replaced by ours. Raises TypeError for a setting with two
    different values, and ValueError for a value of gensim that embedx does not support.
    """
    settings = {
        name: value
        for name, value in parameters.items()
        if name not in GENSIM and name not in SWITCHES
    }
    for name, value in parameters.items():
        setting = _setting_of_gensim(name, value)
        if setting is None:
            continue
        ours, wanted = setting
        if settings.setdefault(ours, wanted) != wanted:
            raise TypeError(
                f"{name}={value!r} and {ours}={settings[ours]!r} are the same setting; give one of"
                " them"
            )
    if "alpha" in parameters:
        # `alpha` is the learning rate of word2vec, whose optimizer is SGD.
        settings.setdefault("optimizer", "sgd")
    return settings


def _setting_of_gensim(name: str, value: Any) -> tuple[str, Any] | None:
    """The setting and its value for a parameter of gensim; None if no setting corresponds, or it is
    not gensim's.
    """
    if name in SWITCHES:
        choices = SWITCHES[name]
        if value not in choices:
            raise ValueError(f"{name}={value!r}: must be {' or '.join(map(str, choices))}")
        return choices[value]
    if name not in GENSIM:
        return None
    is_hierarchical_softmax_alone = name == "negative" and not value
    return None if is_hierarchical_softmax_alone else (GENSIM[name], value)


def plain_settings(parameters: Mapping[str, Any], fields: Fields) -> dict[str, Any]:
    """The parameters that are not None, as the settings of a request: plain Python values, with
    strings parsed as on the command line.
    """
    return {
        name: _typed_value(value, fields[name])
        for name, value in parameters.items()
        if value is not None and name in fields
    }


def _typed_value(value: Any, field: "dataclasses.Field[Any]") -> Any:
    """The plain Python value of a setting."""
    if isinstance(value, np.generic):
        # A numpy scalar, as in a parameter search; the record is JSON.
        value = value.item()
    is_number_or_path = isinstance(value, int | float | PurePath) and not isinstance(value, bool)
    if value_type(field) is str and is_number_or_path:
        # Such as a share of the rows instead of a file.
        value = str(value)
    parse = field.metadata["parse"]
    if parse and isinstance(value, str):
        return parse(value)
    return value


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
