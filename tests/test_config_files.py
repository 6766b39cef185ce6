"""Options in a file: --config."""

import re
from pathlib import Path

import pytest

from embedx.errors import DataError
from tests.support.commands import invoke
from tests.support.refusals import refused, refused_on_command_line


@pytest.fixture
def file(tmp_path):
    def write(text):
        (tmp_path / "run.toml").write_text(text)
        return str(tmp_path / "run.toml")

    return write


def test_options_are_those_of_the_file_and_typed_ones_come_first(requested, file):
    path = file(
        'objective = "ar"\ndim = 20\nlearning-rate = 1\nmin_count = 2\nlowercase ='
        ' true\ntime-budget = "1m30s"\nheldout = 0.01\nlocal_decay = 0.5\ntail = true\ncollapsed ='
        " false\n"
    )
    objective, typed = requested("train", "x", "--config", path, "--size", "30", "--no-lowercase")
    assert objective == "ar"
    assert typed == {
        "dim": 30,
        "learning_rate": 1.0,
        "min_count": 2,
        "lowercase": False,
        "time_budget": 90.0,
        "heldout": 0.01,
        "local_decay": 0.5,
        "tail": True,
    }
    objective, typed = requested("train", f"--config={path}", "x", "--objective", "ove")
    assert (objective, typed["dim"], typed["lowercase"]) == ("ove", 20, True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("epohcs = 3", "No such option: --epohcs; did you mean --epochs? see --help"),
        ("config = 'x'", "config: "),
        ("epochs = 2.5", "--epochs 2.5: "),
        ("epochs = true", "--epochs True: "),
        ("learning-rate = 'high'", "--learning-rate high: "),
        ("lowercase = 1", "Option '--lowercase' does not take a value; see --help"),
        ("tokenizer = 'word'", "--tokenizer word: did you mean words?"),
        ("local-decay = 2", "--set local-decay=2: "),
        ("time-budget = 'soon'", "--time-budget soon: "),
        ("learning-rate = " + "9" * 400, "--learning-rate "),
        ("epochs = [2, 3]", "epochs: a list, "),
        ("[set]\nlocal_decay = 0.5", "set: a table, "),
        ("local-decay = [0.5]", "local-decay: a list, "),
        ("min_count = 2\nmin-count = 3", "min-count: given twice"),
        ("dim = ", "not TOML: Invalid value"),
        ("dim = " + "9" * 5000, "not TOML: "),
    ],
)
def test_a_mistake_in_the_file_is_reported_with_the_file(file, text, message):
    path = file(text)
    with refused_on_command_line(f"^{re.escape(path)}: {re.escape(message)}") as raised:
        invoke("train", "x", "--config", path)
    assert raised.value.exit_code == 2


def test_a_list_repeats_an_option(requested, file):
    _, typed = requested("train", "x", "--config", file("set = ['local-decay=0.5', 'tail=yes']"))
    assert typed == {"local_decay": 0.5, "tail": True}


def test_a_mistake_on_the_command_line_is_not_that_of_the_file(file):
    with refused("dim", value="abc"):
        invoke("train", "x", "--config", file("dim = 5"), "--dim", "abc")


def test_a_file_that_cannot_be_read_is_reported(tmp_path):
    missing = Path("nowhere.toml")
    with refused("config", value=missing, quoting="No such file or directory"):
        invoke("train", "x", "--config", str(missing))
    (tmp_path / "latin.toml").write_bytes(b"vocab = '\xe9'")
    with refused(kind=DataError, file=tmp_path / "latin.toml", line=None) as raised:
        invoke("train", "x", "--config", str(tmp_path / "latin.toml"))
    assert raised.value.problem.startswith("not TOML: 'utf-8' codec can't decode byte")


def test_a_byte_order_mark_belongs_to_no_option(requested, tmp_path):
    (tmp_path / "run.toml").write_bytes(b"\xef\xbb\xbfdim = 20\n")
    _, typed = requested("train", "x", "--config", str(tmp_path / "run.toml"))
    assert typed == {"dim": 20}
