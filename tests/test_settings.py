"""Settings take values of their type, finite, and no larger than kernels count; a mistake is one
line that a terminal shows.
"""

import dataclasses
import pickle
import re

import numpy as np
import pytest

from embedx import SkipGram, parameters
from embedx.classification.settings import ClassifySettings
from embedx.cli.setting_options import train_options
from embedx.cli.spelling import spelling_of
from embedx.errors import (
    MAX_CHARACTERS,
    DataError,
    EmbedxError,
    InapplicableError,
    Setting,
    SettingError,
)
from embedx.labeled.read import read
from embedx.objectives import OBJECTIVES
from embedx.optimizers import OPTIMIZERS
from embedx.optimizers.contract import WORDS
from embedx.samplers import SAMPLERS
from embedx.settings import Settings, check, param, value_type
from embedx.skipgram.configuration import configure
from embedx.skipgram.settings import CollapsedSettings, SkipGramSettings, StartSettings, distance
from embedx.spelling import on_command_line
from embedx.text.settings import PhraseSettings, TextSettings, VocabularySettings
from embedx.text.subsampling import WHOLE_SENTENCE
from embedx.vectors.lookup import UnknownWordError
from tests.support.refusals import refused, refused_data

GROUPS = [
    SkipGramSettings,
    ClassifySettings,
    CollapsedSettings,
    TextSettings,
    VocabularySettings,
    PhraseSettings,
]
GROUPS += [StartSettings, *(part.Settings for part in (*OBJECTIVES.values(), *SAMPLERS.values()))]
FIELDS = {
    f"{group.__module__}.{field.name}": field
    for group in GROUPS
    for field in dataclasses.fields(group)
}
WRONG = {
    int: ["5", 1.5, float("nan"), True, [1]],
    float: ["5", float("nan"), float("inf"), -float("inf"), 10**400, True, None],
    bool: ["yes", 2],
    str: [5, b"ns", ["ns"]],
}
LARGE = [2**31, 10**20, 10**5000]


@pytest.mark.parametrize("field", FIELDS.values(), ids=list(FIELDS))
def test_every_setting_refuses_values_of_other_types(field):
    for value in WRONG[value_type(field)]:
        if value is not None or field.default is not None:
            with refused(field.name) as raised:
                check(field, value)
            assert raised.value.value is value
            assert len(str(raised.value)) < 200


@pytest.mark.parametrize(
    "field",
    [field for field in FIELDS.values() if value_type(field) is int],
    ids=lambda field: field.name,
)
def test_every_whole_number_has_a_largest_one(field):
    for value in LARGE if field.name != "seed" else LARGE[1:]:
        with refused(field.name, value=value) as caught:
            check(field, value)
        assert re.search(r" \d+$", caught.value.problem)
        assert len(str(caught.value)) < 100


def test_numbers_of_numpy_are_numbers():
    options = {"dim": np.int64(7), "learning_rate": np.float32(0.5), "heldout": 0}
    settings = SkipGramSettings.from_options(options)
    assert (settings.dim, settings.learning_rate, settings.heldout) == (7, 0.5, 0)
    assert ClassifySettings(replacement=np.True_).replacement


@pytest.mark.parametrize(
    ("options", "settings", "quoted"),
    [
        ({"dim": 10**20}, ["dim"], ("dim=100000000000000000000", "2147483647")),
        ({"window": 10**9}, ["window"], ("window=1000000000", "1000")),
        ({"threads": 10**6}, ["threads"], ("threads=1000000", "1024")),
        ({"draws": 0}, ["draws"], ("draws=0", "1")),
        ({"objective": "hs", "draws": 5}, ["draws"], ()),
        ({"heldout_points": 2}, ["heldout_points", "heldout"], ()),
        ({"sampler": "adversarial"}, ["sampler", "objective"], "unigram, uniform, all"),
        ({"objective": "ldgs", "block_size": 0}, ["block_size", "sampler"], "block_size=0"),
        ({"score_l2": float("inf")}, ["score_l2"], "score_l2=inf"),
        ({"learning_rate": float("inf")}, ["learning_rate"], ("learning_rate=inf", "1e+38")),
    ],
)
def test_word_vectors_from_python_refuse_them_as_the_command_line_does(options, settings, quoted):
    with refused(*settings, quoting=quoted):
        SkipGram(**options)


def test_draws_of_an_objective_are_not_used_beside_negatives_whoever_decides_these():
    assert configure("ldgs", {}).settings.draws == 128
    assert configure("ldgs", {"negatives": 9}).settings.draws is None
    config = configure("ldgs", {}, defaults={"negatives": 9})
    assert config.objective.negatives == 9
    assert config.settings.draws is None


def test_a_learning_rate_is_used_with_the_optimizer_that_it_is_for():
    usual = OPTIMIZERS["sgd"].rates[WORDS]
    assert configure("softmax", {}).settings.learning_rate == 0.15
    assert configure("softmax", {"optimizer": "sgd"}).settings.learning_rate == usual
    config = configure("softmax", {}, defaults={"optimizer": "sgd"})
    assert config.settings.learning_rate == usual


def test_settings_of_labels_are_not_those_of_words():
    with refused("hierarchy", kind=InapplicableError):
        configure("hs", {"hierarchy": "clusters"})


def test_a_command_spells_settings_as_it_takes_them():
    lowercase = Setting("lowercase", False)
    threshold = Setting("threshold", 0.5)
    assert spelling_of(["train", "x"])(lowercase) == "--no-lowercase"
    assert spelling_of(["classify", "x"])(lowercase) == "--set lowercase=no"
    assert spelling_of(["train", "x"])(threshold) == "--set threshold=0.5"
    assert spelling_of(["predict", "m"])(threshold) == "--threshold 0.5"
    assert spelling_of(["nowhere"])(Setting("min_count", 0)) == "--min-count 0"
    separator = Setting("label_separator", ";")
    assert spelling_of(["classify", "x"])(separator) == "--set 'label-separator=;'"


def test_a_window_may_be_all_of_the_sentence():
    assert [distance("all"), distance("7")] == [WHOLE_SENTENCE, 7]
    with refused("window", value="some"):
        distance("some")


@pytest.mark.parametrize("kind", [EmbedxError, UnknownWordError])
def test_characters_that_break_lines_or_command_a_terminal_are_written_as_escapes(kind):
    assert (
        str(kind("a\n\r\t\x1b[2J\u2028\x85\udcff b é 日"))
        == r"a\n\r\t\x1b[2J\u2028\x85\udcff b é 日"
    )


def test_colours_of_a_terminal_are_left_out():
    assert str(EmbedxError("\x1b[1m\x1b[31mred\x1b[0m")) == "red"


def test_a_long_message_keeps_its_beginning_and_its_end():
    message = str(EmbedxError("file.txt:1: " + "x" * 10**6 + " is no number; mend it"))
    assert len(message) < MAX_CHARACTERS + 10
    assert message.startswith("file.txt:1: xxx")
    assert message.endswith("xxx is no number; mend it")
    assert str(EmbedxError("x" * MAX_CHARACTERS)) == "x" * MAX_CHARACTERS


def test_text_of_the_user_is_quoted_with_escapes(tmp_path):
    (tmp_path / "train.txt").write_text("1 1 1\n0 a\u2028b:1\n0 " + "word" * 9999 + ":1\n")
    with refused_data("train.txt:2", quoting=r'"a\u2028b:1"'):
        read(str(tmp_path / "train.txt"))


def test_less_memory_than_is_free_is_an_error_too(tmp_path, monkeypatch):
    """For example under `ulimit -v`."""

    def fail(*_):
        raise MemoryError

    (tmp_path / "train.txt").write_text("1 1 1\n0 0:1\n")
    monkeypatch.setattr("embedx.labeled.formats.xc.read_sparse_rows", fail)
    with refused_data("train.txt"):
        read(str(tmp_path / "train.txt"))


def test_each_front_end_spells_the_settings_of_a_message():
    needs = ("needs ", Setting("weights", "sparse"))
    error = SettingError("rescore", False, needs, ("leave ", Setting("min_count"), " out"))
    typed = "--set rescore=no: needs --weights sparse; leave --min-count out"
    assert error.spelled(on_command_line) == typed
    assert str(error) == "rescore=False: needs weights='sparse'; leave min_count out"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)

    @parameters.python_names({"threads": "n_jobs"})
    def fit():
        raise SettingError("threads", -5, "negative")

    with refused("threads", value=-5):
        fit()


def test_errors_of_data_name_the_file_and_the_line():
    assert str(DataError("a.csv", 3, "no label", "add one")) == "a.csv:3: no label; add one"
    error = DataError("a.csv", None, "no rows\x1b[2J")
    assert str(error) == "a.csv: no rows\\x1b[2J"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_a_setting_of_one_name_has_an_option_everywhere_or_nowhere():
    """A class of embedx itself, because other packages may have settings of the same name."""
    body = {"__module__": "embedx.new", "dim": param(100, "x", has_option=False)}
    body["__annotations__"] = {"dim": int}
    with pytest.raises(TypeError, match=r"NewSettings\.dim"):
        type("NewSettings", (Settings,), body)


def test_the_first_declaration_of_a_setting_counts_everywhere():
    fields = parameters.fields_of(SkipGramSettings, is_of_words=True)
    options = train_options()
    assert {name: options[name].field.metadata for name in fields} == {
        name: field.metadata for name, field in fields.items()
    }
