"""Options in a file: --config and --save-config."""

import os
import re

import pytest
from test_other_programs import asked  # noqa: F401  # a fixture

from embedx.cli.app import application
from embedx.errors import EmbedxError


@pytest.fixture
def file(tmp_path):
    def write(text):
        (tmp_path / "run.toml").write_text(text)
        return str(tmp_path / "run.toml")

    return write


def test_options_are_those_of_the_file_and_typed_ones_come_first(asked, file):  # noqa: F811
    path = file(
        'objective = "ar"\ndim = 20\nlearning-rate = 1\nmin_count = 2\nlowercase = true\ntime-budget = "1m30s"\n'
        "heldout = 0.01\n"
    )
    objective, typed = asked("train", "x", "--config", path, "--size", "30", "--no-lowercase")
    assert objective == "ar"
    assert typed == {
        "dim": 30, "learning_rate": 1.0, "min_count": 2, "lowercase": False, "time_budget": 90.0, "heldout": 0.01
    }  # fmt: skip
    objective, typed = asked("train", f"--config={path}", "x", "--objective", "ove")
    assert (objective, typed["dim"], typed["lowercase"]) == ("ove", 20, True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "epoch = 3",
            "epoch: no option of `embedx train` that a file may have; did you mean epochs? `embedx train --help-all`",
        ),
        ("config = 'x'", "config: no option of `embedx train` that a file may have"),
        ("epochs = 2.5", "epochs: --epochs 2.5: must be a whole number"),
        ("epochs = true", "epochs: must be a number or a text"),
        ("learning-rate = 'high'", "learning-rate: --learning-rate high: must be a number"),
        ("lowercase = 1", "lowercase: must be true or false"),
        ("tokenizer = [1]", "tokenizer: --tokenizer [1]: choose one of"),
        ("dim = 0", "dim: --dim 0: must be at least 1"),
        ("tokenizer = 'word'", "tokenizer: --tokenizer word: did you mean words? choose one of whitespace, words, none"),
        ("time-budget = 'soon'", "time-budget: --time-budget soon: not a time; write 90s, 10m, 2h or 1h30m"),
        ("learning-rate = " + "9" * 400, "learning-rate: --learning-rate "),
        ("dim = ", "not TOML: Invalid value"),
        ("dim = " + "9" * 5000, "not TOML: "),
    ],
)
def test_a_mistake_in_the_file_is_reported_with_file_and_key(file, text, message):
    path = file(text)
    with pytest.raises(EmbedxError, match=f"^{re.escape(path)}: {re.escape(message)}") as raised:
        application(["train"])(["train", "x", "--config", path], standalone_mode=False)
    assert raised.value.exit_code == 2


def test_a_file_that_cannot_be_read_is_reported(tmp_path):
    with pytest.raises(EmbedxError, match=r"^--config nowhere.toml: cannot be read: No such file or directory"):
        application(["train"])(["train", "x", "--config", "nowhere.toml"], standalone_mode=False)
    (tmp_path / "latin.toml").write_bytes(b"vocab = '\xe9'")
    with pytest.raises(EmbedxError, match=r"latin.toml: not TOML: 'utf-8' codec can't decode byte"):
        application(["train"])(["train", "x", "--config", str(tmp_path / "latin.toml")], standalone_mode=False)


@pytest.mark.parametrize(
    "words",
    [
        "train x --objective ldgs --dim 30 --learning-rate 1e-05 --heldout 0.1% --window all --lowercase --time-budget 1h",
        "train x --collapsed --objective softmax --no-lowercase --draws 20 --phrases 2 --checkpoint-every 1m",
        "train x --block-size 2 --dim 3 --epochs 4",
        "train x --sampler adversarial --set tree-l2=0.5 --json-field te\"x\\t\tñ😀 --seed 18446744073709551615 --config BASE",
        "classify x --objective margin --batch-size all --validation 0.1 --set arity=5 --test y --label-names z --hidden 4",
    ],
)  # fmt: skip
def test_a_run_by_the_saved_file_has_the_same_settings(asked, tmp_path, words):  # noqa: F811
    (tmp_path / "base.toml").write_text("dim = 12\n")
    typed = [str(tmp_path / "base.toml") if word == "BASE" else word for word in re.split(" +", words)]
    saved = str(tmp_path / "saved.toml")
    first = asked(*typed, "--save-config", saved)
    assert asked(*typed[:2], "--config", saved) == first
    assert len(first[1]) >= 3
    again = str(tmp_path / "again.toml")
    asked(*typed[:2], "--config", saved, "--save-config", again)
    lines = [(tmp_path / name).read_text().splitlines()[1:] for name in ("saved.toml", "again.toml")]
    assert lines[0] == lines[1]


def test_a_file_holds_all_that_was_given(asked, tmp_path):  # noqa: F811
    saved = tmp_path / "saved.toml"
    asked(
        "train", "x", "--collapsed", "--size", "7", "--heldout", "1%", "--checkpoint-every", "1m", "--save-config", str(saved)
    )
    expected = ["collapsed = true", 'checkpoint-every = "1m"', "dim = 7", "heldout = 0.01"]
    assert sorted(saved.read_text().splitlines()[1:]) == sorted(expected)


def test_what_belongs_to_one_run_is_not_saved(asked, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    saved = tmp_path / "saved.toml"
    asked("train", "x", "--output", "y", "--json", "--overwrite", "--log-json", "z", "--dim", "3", "--save-config", str(saved))
    assert saved.read_text() == "# embedx train --config saved.toml\ndim = 3\n"


def test_another_file_is_kept_unless_overwrite_is_given(asked, tmp_path):  # noqa: F811
    saved = tmp_path / "saved.toml"
    words = ["train", "x", "--dim", "3", "--save-config", str(saved)]
    asked(*words)
    asked(*words)  # the same once more
    with pytest.raises(EmbedxError, match=r"--save-config .*saved.toml: exists already; add --overwrite"):
        application(["train"])([*words, "--seed", "2"], standalone_mode=False)
    assert "seed" not in saved.read_text()
    asked(*words, "--seed", "2", "--overwrite")
    assert "seed = 2" in saved.read_text()
    with pytest.raises(EmbedxError, match="--dim 0: must be at least 1"):
        application(["train"])(["train", "x", "--dim", "0", "--save-config", str(tmp_path / "new.toml")], standalone_mode=False)
    assert os.listdir(tmp_path) == ["saved.toml"]
    with pytest.raises(EmbedxError, match=r"--save-config .*no/such: cannot be written: No such file or directory"):
        application(["train"])(["train", "x", "--save-config", str(tmp_path / "no/such")], standalone_mode=False)
