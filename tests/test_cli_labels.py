"""`classify`, `predict` and `eval` as a user types them."""

import json

import pytest

from tests.support.commands import run_command, words_of
from tests.support.notes import lines_with


def test_a_recipe_of_labelled_data_is_classified_by_its_name(home):
    (home / "Bibtex").mkdir()
    (home / "Bibtex" / "Bibtex_data.txt").write_text("4 2 2\n0 0:1\n1 1:1\n0 0:2\n1 1:2\n")
    (home / "Bibtex" / "bibtex_trSplit.txt").write_text("1\n2\n3\n")
    (home / "Bibtex" / "bibtex_tstSplit.txt").write_text("4\n")
    train, test = (f"bibtex@Bibtex/bibtex_{part}Split.txt" for part in ("tr", "tst"))
    completed = run_command(home, "classify", train, "--epochs", 1, "--test", test, "-q")
    assert completed.stdout.startswith(f"{home}/bibtex_trSplit.")
    assert completed.stdout.count("\n") == 1


def test_labels_that_differ_in_case_alone_are_pointed_out(tmp_path):
    rows = ["one,Tea", "two,tea ", "three,Cocoa"]
    (tmp_path / "few.csv").write_text("\n".join(["text,label", *rows * 5, ""]))
    completed = run_command(tmp_path, "classify", "few.csv", "--epochs", 1)
    assert lines_with(completed.stderr, "case alone", ": Tea and tea")
    (tmp_path / "few.csv").write_text("text,label\n" + "one,Tea\ntwo,Cocoa\n" * 5)
    completed = run_command(tmp_path, "classify", "few.csv", "--epochs", 1, "--overwrite")
    assert not lines_with(completed.stderr, "case alone")


def test_a_column_of_which_each_row_has_its_own_value_is_asked_about(tmp_path):
    (tmp_path / "few.csv").write_text("text,price\n" + "".join(f"tea,{k}.5\n" for k in range(9)))
    completed = run_command(tmp_path, "classify", "few.csv", "--epochs", 1)
    assert lines_with(completed.stderr, "warning: 9 of 9 rows", '"price"', "--label-column")


@pytest.mark.parametrize("layout", ["{0} 1:1\n{1} 2:1\n", "__label__{0} a\n__label__{1} b\n"])
def test_labels_are_called_by_their_names(home, layout):
    (home / "few.txt").write_text(layout.format(2, 0) * 20)
    (home / "names.txt").write_text("zero\none\ntwo\n")
    options = words_of(
        "--label-names names.txt --epochs 3 --test few.txt --output named --overwrite --json"
    )
    completed = run_command(home, "classify", "few.txt", *options)
    assert json.loads(completed.stdout)["test"]["accuracy"] == 1
    (home / "few.txt").write_text(layout.format(2, 0) * 20 + "\n")  # a line more, for `paste`
    best = [
        line.split("\t")[0]
        for line in run_command(home, "predict", "named", "few.txt").stdout.splitlines()
    ]
    assert (best[:40], len(best)) == (["two", "zero"] * 20, 41)
    assert run_command(home, "predict", "named", "few.txt", "-o", "best.tsv").stdout == ""
    assert [line.split("\t")[0] for line in (home / "best.tsv").read_text().splitlines()] == best
    assert (
        "--overwrite"
        in run_command(home, "predict", "named", "few.txt", "-o", "best.tsv", check=False).stderr
    )
    (home / "best.tsv").unlink()
    assert "accuracy\t1.0000" in run_command(home, "eval", "named", "--test", "few.txt").stdout


def test_two_classifiers_are_scored_on_the_same_test_rows(home):
    good = "0 1:1\n1 2:1\n" * 20
    (home / "good.txt").write_text(good)
    (home / "swapped.txt").write_text("1 1:1\n0 2:1\n" * 20)
    for name in ("good", "swapped"):
        run_command(home, "classify", f"{name}.txt", "-o", f"{name}.m")
    scored = ["eval", "good.m", "swapped.m", "--test", "good.txt"]
    lines = [line.split("\t") for line in run_command(home, *scored).stdout.splitlines()]
    assert lines[0] == ["metric", "good.m", "swapped.m", "difference", "from", "to"]
    row = {name: values for name, *values in lines}
    assert row["accuracy"] == ["1.0000", "0.0000", "1.0000", "1.0000", "1.0000"]
    record = json.loads(run_command(home, *scored, "--json").stdout)["test"]
    assert [metrics["accuracy"] for metrics in record["metrics"]] == [1.0, 0.0]
    assert record["difference"]["accuracy"] == 1.0
    refusal = run_command(home, *scored, "--per-label", "l.csv", check=False)
    assert refusal.returncode == 2
    assert "--per-label" in refusal.stderr


def test_rows_without_labels_are_reported_and_count_in_no_measure(home):
    (home / "half.txt").write_text("0 1:1\n1 2:1\n 1:1\n" * 20)
    options = ["--epochs", 3, "--test", "half.txt", "--output", "half", "--overwrite"]
    completed = run_command(home, "classify", "half.txt", *options)
    assert "20 of 60 training rows" in completed.stderr
    assert "20 of 60 test rows" in completed.stderr
    assert "accuracy 1.0000" in completed.stdout
    assert "p@1 1.0000" in completed.stdout
    assert completed.stdout.endswith(", 40 labelled test rows\n")


@pytest.mark.parametrize(("objective", "is_noted"), [("margin", True), ("softmax", False)])
def test_scores_that_are_no_probabilities_are_noted(home, objective, is_noted):
    (home / "few.txt").write_text("1 0:1\n0 1:1\n1 0:2\n0 1:2\n" * 5)
    options = [
        "--objective",
        objective,
        "--epochs",
        3,
        "--validation",
        "0.2",
        "--output",
        f"few.{objective}.embedx",
    ]
    trained = run_command(home, "classify", "few.txt", *options)
    predicted = run_command(home, "predict", f"few.{objective}.embedx", "few.txt")
    tested = run_command(home, "eval", f"few.{objective}.embedx", "--test", "few.txt")
    for completed in (trained, predicted, tested):
        assert bool(lines_with(completed.stderr, "margin", "no probabilities")) == is_noted, (
            completed.stderr
        )
        assert "no probabilities" not in completed.stdout


def test_scores_of_the_training_rows_come_with_a_warning(home):
    rows = "__label__a cat\n__label__b dog\n" * 20
    (home / "train.txt").write_text(rows)
    (home / "test.txt").write_text(rows + "__label__a cat\n")
    run_command(home, *words_of("classify train.txt --epochs 1 --output m.embedx"))
    warning = "warning: train.txt has the rows that the classifier was trained on"
    for command in ("eval m.embedx --test", "report m.embedx --overwrite --test"):
        assert warning in run_command(home, *words_of(f"{command} train.txt")).stderr
        assert "trained on" not in run_command(home, *words_of(f"{command} test.txt")).stderr
