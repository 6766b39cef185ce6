"""What `embedx compare` refuses before it trains: data, settings, folders and names."""

import pytest

import embedx
from embedx.comparison import compare as comparison
from embedx.comparison.labels import looks_labelled
from embedx.comparison.records import FILE, Records
from embedx.comparison.settings import CompareSettings
from embedx.errors import DataError, InapplicableError, Setting
from tests.support.comparison_records import small_text
from tests.support.refusals import refused, refused_data


@pytest.mark.parametrize(
    ("first", "is_labelled"),
    [
        ("3 10 4\n0 1:2 3:4\n", True),
        ("7 1:0.5 9:1e-3 12:2\n", True),
        ("__label__good a nice film\n", True),
        ("so it was 10:30 when the train left\n", False),
        ("anarchism originated as a term of abuse\n", False),
    ],
)
def test_labelled_data_are_recognised(write, first, is_labelled):
    file = write(first)
    assert looks_labelled(file) is is_labelled
    if is_labelled:
        with pytest.raises(DataError) as error:
            comparison.data_of([file], {}, CompareSettings())
        assert error.value.file == file
        assert {Setting("test"), Setting("format", "text")} <= set(error.value.remedy)
        assert comparison.data_of([file], {"format": "text"}, CompareSettings())


def test_records_of_json_may_be_text_or_labelled(write, tmp_path):
    file = write('[{"text": "nice", "label": "a"}]', "rows.json")
    with refused_data("rows.json", quoting=("json_field", "labelled data to score on")):
        embedx.compare(file, output=tmp_path / "compared", objectives="ns")


@pytest.mark.parametrize(
    ("options", "more", "settings"),
    [
        ({"hidden": 9}, {}, ("hidden", "test")),
        ({"dim": 9}, {"test": "x"}, ("dim", "test")),
        ({}, {"test_labels": "x"}, ("test_labels", "test")),
    ],
)
def test_settings_of_other_data_are_refused_before_anything_is_trained(
    write, options, more, settings
):
    with refused(*settings, kind=InapplicableError):
        comparison.data_of([write("a b c")], options, CompareSettings(), **more)


@pytest.mark.parametrize(
    ("names", "more", "place", "settings"),
    [
        (["-"], {}, "-", ()),
        (["-"], {"test": "x"}, "-", ()),
        (["CORPUS"], {"train_labels": "x"}, "train.txt", ("test",)),
        (["nowhere.txt"], {}, "nowhere.txt", ()),
    ],
)
def test_data_that_cannot_be_compared_on_are_refused(write, names, more, place, settings):
    names = [write("a b c") if name == "CORPUS" else name for name in names]
    with refused_data(place, *settings):
        comparison.data_of(names, {}, CompareSettings(), **more)


def test_analogies_are_not_for_a_recipe_of_labelled_data():
    with refused("analogies", "test", kind=InapplicableError):
        comparison.data_of(["digits"], {}, CompareSettings(), analogies="x")


def test_invalid_folders_and_names_are_refused(two_topics, tmp_path):
    data, settings = small_text(two_topics, tmp_path)
    (tmp_path / "file").write_text("x")
    with refused("objectives"):
        comparison.compare(data, [], settings, tmp_path / "out")
    with refused("objective", value="nss"):
        comparison.compare(data, ["nss"], settings, tmp_path / "out")
    for folder in (tmp_path / "file", tmp_path):
        with refused_data(str(folder), "output"):
            comparison.compare(data, ["ns"], settings, folder)
    with refused("epochs", "time_budget", kind=InapplicableError):
        CompareSettings(epochs=1, time_budget=2.0)
    assert CompareSettings().limit == {"time_budget": 60}


def test_a_damaged_record_is_named_by_its_line(tmp_path):
    records = Records(tmp_path, {"until": "now"})
    records.add({"diverged": "why"}, objective="ns", seed=1)
    assert Records(tmp_path, {"until": "now"}).find(objective="ns", seed=1)["diverged"] == "why"
    assert Records(tmp_path, {"until": "later"}, overwrite=True).runs == []
    with open(tmp_path / FILE, "a") as file:
        file.write('{"objective": "ns"\n')
    with refused_data("runs.jsonl:3", "overwrite"):
        Records(tmp_path, {"until": "now"})
