"""A setting that is accepted changes what is trained; one that would not is refused."""

import dataclasses

import numpy as np
import pytest

from embedx import SkipGram, SoftmaxClassifier
from embedx.classification.resolve import check_given, new_objective
from embedx.classification.settings import ClassifySettings
from embedx.errors import EmbedxError, InapplicableError, Setting, SettingError
from embedx.objectives import OBJECTIVES
from embedx.skipgram.configuration import configure
from tests.support.refusals import refused


@pytest.mark.parametrize(
    ("objective", "options", "setting", "need"),
    [
        ("ldgs", {"rescore": False}, "rescore", "labels, by `embedx classify`"),
        ("ldgs", {"iterations": 7}, "iterations", "labels, by `embedx classify`"),
        ("ldgs", {"smoothing": 3.0}, "smoothing", Setting("loss", "margin")),
        ("mips", {"smoothing": 3.0}, "smoothing", Setting("loss", "margin")),
        ("mips", {"loss": "margin", "tail": True}, "tail", Setting("loss", "softmax")),
    ],
)
def test_of_words(objective, options, setting, need):
    with refused(setting, kind=InapplicableError) as caught:
        configure(objective, options)
    assert need in caught.value.problem


@pytest.mark.parametrize(
    ("objective", "options", "setting", "need"),
    [
        ("ldgs", {"iterations": 7}, "iterations", Setting("rescore", False)),
        ("ldgs", {"rescore": False, "slack": 1.0}, "slack", Setting("rescore", True)),
        ("ldgs", {"loss": "softmax", "smoothing": 3.0}, "smoothing", Setting("loss", "margin")),
    ],
)
def test_of_labels(objective, options, setting, need):
    made = new_objective(OBJECTIVES[objective], options)
    with pytest.raises(SettingError) as caught:
        check_given(options, ClassifySettings(), made)
    assert caught.value.setting == setting
    assert need in caught.value.problem


@pytest.mark.parametrize(
    "options", [{"rescore": False, "iterations": 7}, {"slack": 1.0}, {"smoothing": 3.0}]
)
def test_of_labels_what_has_an_effect_is_accepted(options):
    check_given(options, ClassifySettings(), new_objective(OBJECTIVES["ldgs"], options))


# ---- over the registry: another value changes the bytes of a small model, or is refused

RANDOM = np.random.default_rng(1)
SENTENCES = [[f"w{word}" for word in RANDOM.zipf(1.6, 12) % 60] for _ in range(60)]
ROWS, ANSWERS = RANDOM.normal(size=(90, 4)), RANDOM.integers(0, 12, 90)
# a search begins where there are more rows than here, so that its settings change nothing
WITHOUT_SEARCH = [name for name in OBJECTIVES if "retrieved" not in OBJECTIVES[name].candidates]
# of labels with all rows, where nothing is drawn
ACCEPTED_THOUGH_WITHOUT_EFFECT = {(name, "negatives") for name in ("ova", "margin")}


def other_value(field, default):
    """A value that is not the default, in the range of a setting of an objective."""
    if choices := field.metadata["choices"]:
        return next(choice for choice in choices if choice != default)
    if isinstance(default, bool):
        return not default
    if default is None:
        return 3
    if isinstance(default, int):
        return 2 * default + 1
    return 0.5 * default + 0.01


def limits_otherwise(objective, options):
    """Whether a kernel is told another limit, which small data do not reach."""
    usual, made = (objective(objective.Settings.from_options(given)) for given in ({}, options))
    return (made.constants(5, 60) != usual.constants(5, 60)).any()


def words_of(name, **options):
    model = SkipGram(
        name, dim=4, epochs=1, threads=1, min_count=1, sample=0.0, seed=3, **options
    ).fit(SENTENCES)
    return model.transform([["w1"], ["w2"], ["w3"]]).tobytes()


def labels_of(name, **options):
    model = SoftmaxClassifier(
        name, learning_rate=0.1, epochs=1, n_jobs=1, random_state=3, **options
    ).fit(ROWS, ANSWERS)
    return model.decision_function(ROWS).tobytes()


@pytest.mark.parametrize("name", WITHOUT_SEARCH)
@pytest.mark.parametrize(
    ("model_of", "defaults"), [(words_of, "word_defaults"), (labels_of, "label_defaults")]
)
def test_each_setting_of_an_objective_changes_the_model_or_is_refused(name, model_of, defaults):
    objective = OBJECTIVES[name]
    usual, without_effect = model_of(name), []
    for field in dataclasses.fields(objective.Settings):
        default = getattr(objective, defaults).get(field.name, field.default)
        value = other_value(field, default)
        try:
            changed = model_of(name, **{field.name: value})
        except (EmbedxError, TypeError):
            continue
        if changed == usual and not limits_otherwise(objective, {field.name: value}):
            without_effect.append((field.name, value))
    assert {(name, setting) for setting, _ in without_effect} <= ACCEPTED_THOUGH_WITHOUT_EFFECT
