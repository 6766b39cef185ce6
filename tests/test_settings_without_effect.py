"""A setting that is accepted changes what is trained; one that would not is refused."""

import dataclasses
import functools

import numpy as np
import pytest

from embedx import SkipGram, SoftmaxClassifier
from embedx.classification.ineffective_settings import check_given
from embedx.classification.objective_choice import new_objective
from embedx.classification.settings import ClassifySettings
from embedx.errors import EmbedxError, InapplicableError, Setting, SettingError
from embedx.objectives import OBJECTIVES
from embedx.samplers import SAMPLERS, search
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
def test_settings_of_words_without_effect_are_refused(objective, options, setting, need):
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
def test_settings_of_labels_without_effect_are_refused(objective, options, setting, need):
    instance = new_objective(OBJECTIVES[objective], options)
    with pytest.raises(SettingError) as caught:
        check_given(options, ClassifySettings(), instance)
    assert caught.value.setting == setting
    assert need in caught.value.problem


@pytest.mark.parametrize(
    "options", [{"rescore": False, "iterations": 7}, {"slack": 1.0}, {"smoothing": 3.0}]
)
def test_settings_of_labels_with_an_effect_are_accepted(options):
    check_given(options, ClassifySettings(), new_objective(OBJECTIVES["ldgs"], options))


# ---- over the registry: another value changes the bytes of a small model, or is refused

RANDOM = np.random.default_rng(1)
SENTENCES = [[f"w{word}" for word in RANDOM.zipf(1.6, 12) % 60] for _ in range(60)]
ROWS = RANDOM.normal(size=(90, 4))
ANSWERS = RANDOM.integers(0, 12, 90)
# a search begins where there are more rows than here, so that its settings change nothing
WITHOUT_SEARCH = [name for name in OBJECTIVES if "retrieved" not in OBJECTIVES[name].candidates]


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


def changes_a_constant(objective, options):
    """Whether the kernel's constants differ, such as a limit that small data do not reach."""
    usual, changed = (objective(objective.Settings.from_options(typed)) for typed in ({}, options))
    return (changed.constants(5, 60) != usual.constants(5, 60)).any()


def changed_or_refused(model_of, name, **options):
    """The bytes of a model with these options; None where they are refused."""
    try:
        return model_of(name, **options)
    except EmbedxError:
        return None
    except TypeError as error:
        if "takes no" not in str(error):
            raise
        return None


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
    usual = model_of(name)
    without_effect = []
    for field in dataclasses.fields(objective.Settings):
        default = getattr(objective, defaults).get(field.name, field.default)
        value = other_value(field, default)
        changed = changed_or_refused(model_of, name, **{field.name: value})
        if changed == usual and not changes_a_constant(objective, {field.name: value}):
            without_effect.append((field.name, value))
    assert without_effect == []


# There are not as many features as its default.
VALUES_OF_SAMPLERS = {"tree_features": 1, "uniform_share": 0.5}
# A search needs more labels, below.
OTHER_SAMPLERS = [name for name, sampler in SAMPLERS.items() if sampler.candidates != "retrieved"]


@pytest.mark.parametrize("name", OTHER_SAMPLERS)
@pytest.mark.parametrize("model_of", [words_of, labels_of])
def test_each_setting_of_a_sampler_changes_the_model_or_is_refused(name, model_of):
    kind = SAMPLERS[name].candidates
    objective = next(
        name for name, objective_class in OBJECTIVES.items() if kind in objective_class.candidates
    )
    try:
        usual = model_of(objective, sampler=name)
    except EmbedxError:
        return  # no sampler of this task
    for sampler in SAMPLERS.values():
        for field in dataclasses.fields(sampler.Settings):
            value = VALUES_OF_SAMPLERS.get(field.name, other_value(field, field.default))
            options = {"sampler": name, field.name: value}
            changed = changed_or_refused(model_of, objective, **options)
            assert changed != usual, field.name


# ---- where labels are searched

# Values that have an effect where there are so few labels.
OTHERWISE = {
    "warm_up": 0.7,
    "scored_fraction": 0.9,
    "candidate_fraction": 0.9,
    "clusters": 3,
    "blocks": 2,
    "slack": 0.0,
    "min_score": 1.0,
}
# Limits that a margin does not reach: few rows are within its gap, and no coefficient is small.
NOT_REACHED_BY_MARGIN = {"candidate_fraction", "min_coefficient"}
# Without a warm-up more rows are near the best than may become candidates.
BESIDE = {"candidate_fraction": {"scored_fraction": 1.0, "warm_up": 0.0}}
MANY_ROWS = RANDOM.normal(size=(300, 16))
MANY_ANSWERS = np.arange(300) % 120


@functools.cache
def searched_labels_of(name, **options):
    options = {"warm_up": 0.3} | options
    model = SoftmaxClassifier(
        name, learning_rate=1.0, epochs=3, n_jobs=1, random_state=3, **options
    ).fit(MANY_ROWS, MANY_ANSWERS)
    return model.decision_function(MANY_ROWS).tobytes()


def losses_of(name):
    """The losses among the rows found that an objective has, as options; one without any has {}."""
    fields = dataclasses.fields(OBJECTIVES[name].Settings)
    if any(field.name == "loss" for field in fields):
        return [{"loss": "margin"}, {"loss": "softmax"}]
    return [{}]


SEARCHES = [
    (name, loss) for name in OBJECTIVES if name not in WITHOUT_SEARCH for loss in losses_of(name)
]
PROPOSAL = {"sampler": "search"}
SEARCHES += [("ar", PROPOSAL), ("ove", PROPOSAL)]


@pytest.mark.parametrize(("name", "loss"), SEARCHES)
def test_each_setting_of_a_search_changes_the_model_or_is_refused(name, loss, monkeypatch):
    monkeypatch.setattr(search, "MIN_ROWS", 30)  # of 120, which are enough for a search then
    without_effect = []
    owner = SAMPLERS["search"] if loss == PROPOSAL else OBJECTIVES[name]
    for field in dataclasses.fields(owner.Settings):
        beside = loss | BESIDE.get(field.name, {})
        value = OTHERWISE.get(field.name, other_value(field, field.default))
        changed = changed_or_refused(searched_labels_of, name, **beside | {field.name: value})
        if field.name != "loss" and changed == searched_labels_of(name, **beside):
            without_effect.append(field.name)
    not_reached = NOT_REACHED_BY_MARGIN if loss == {"loss": "margin"} else set()
    assert set(without_effect) <= not_reached
