"""A setting that is accepted changes what is trained; one that would not is refused."""

import pytest

from embedx.classification.resolve import check_given, new_objective
from embedx.classification.settings import ClassifySettings
from embedx.errors import EmbedxError, Setting, SettingError
from embedx.objectives import OBJECTIVES
from embedx.skipgram.configuration import configure


@pytest.mark.parametrize(
    ("objective", "options", "needs"),
    [
        ("ldgs", {"rescore": False}, "--set rescore applies only with labels"),
        ("ldgs", {"iterations": 7}, "--set iterations applies only with labels"),
        ("ldgs", {"smoothing": 3.0}, "--set smoothing applies only with --loss margin"),
        ("mips", {"smoothing": 3.0}, "--set smoothing applies only with --loss margin"),
        ("mips", {"loss": "margin", "tail": True}, "--set tail applies only with --loss softmax"),
    ],
)
def test_of_words(objective, options, needs):
    with pytest.raises(EmbedxError, match=needs):
        configure(objective, options)


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
