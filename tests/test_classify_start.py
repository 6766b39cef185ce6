"""Classifiers that start from something: from a model, with new rows and labels, or from word
vectors.
"""

import numpy as np
import pytest
from scipy.sparse import random as random_rows

from embedx import SoftmaxClassifier
from embedx.classification.classifier import load
from embedx.cli.app import application
from embedx.labeled.read import read
from tests.support.refusals import refused

TEXT = "".join(
    f"__label__{name} {word} a film\n" for name, word in (("good", "nice"), ("bad", "awful")) * 40
)
MORE = "__label__odd strange a plot\n" * 40 + TEXT[: len(TEXT) // 2]


def run(*words):
    application(words)(list(words), standalone_mode=False)


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.txt").write_text(TEXT)
    (tmp_path / "more.txt").write_text(MORE)
    return tmp_path


def trained(*options):
    run("classify", "train.txt", "--output", "m", "--threads", "1", "--epochs", "30", *options)
    return load("m")


def test_a_classifier_continues_as_by_partial_fit(place):
    rng = np.random.default_rng(0)
    x, y = random_rows(200, 30, 0.2, "csr", np.float32, rng=rng), rng.integers(0, 5, 200)
    y[:5] = y[100:105] = range(5)
    plain = {"optimizer": "sgd", "learning_rate": 0.5, "batch_size": 10}
    fitted = SoftmaxClassifier("softmax", **plain, epochs=2, random_state=3).fit(x[:100], y[:100])
    fitted.classifier_.save("m")
    lines = [
        " ".join(
            [str(label), *(f"{k}:{v:.9g}" for k, v in zip(row.indices, row.data, strict=True))]
        )
        for label, row in zip(y[100:], x[100:], strict=True)
    ]
    (place / "rows.txt").write_text("\n".join(lines) + "\n")
    options = (
        "--epochs 1 --schedule constant --learning-rate 0.5 --batch-size 10 --seed 5 --threads 1"
        " --calibration 0"
    )
    run("classify", "rows.txt", "--start", "m", "--output", "n", *options.split())
    fitted.partial_fit(x[100:], y[100:])
    assert load("n").settings["optimizer"] == "sgd"
    for name, array in load("n").arrays.items():
        np.testing.assert_allclose(array, fitted.classifier_.arrays[name], atol=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        ["--objective", "softmax"],
        ["--objective", "ova", "--optimizer", "adagrad"],
        ["--objective", "ns", "--hidden", "8"],
    ],
)
def test_new_labels_are_learned_and_old_ones_kept(place, options):
    before = trained(*options)
    run("classify", "more.txt", "--start", "m", "--output", "m", "--overwrite", "--threads", "1")
    after = load("m")
    assert [after.name(k) for k in range(3)] == ["good", "bad", "odd"]
    assert after.trained_counts.tolist() == [*before.counts, 40]
    assert after.counts.tolist() == [60, 60, 40]
    assert after.known.vocabulary == before.known.vocabulary  # "strange" and "plot" are not known
    for file in ("train.txt", "more.txt"):
        data = read(file, like=after.known)
        assert np.mean(next(after.iter_top_k(data.features, 1))[0][:, 0] == data.labels.ids) > 0.95


def test_the_accuracy_before_is_shown_and_a_fall_is_warned_of(place, capsys):
    trained("--weights", "dense", "--optimizer", "adagrad")
    (place / "swapped.txt").write_text(
        TEXT.replace("good", "?").replace("bad", "good").replace("?", "bad")
    )
    again = ["--start", "m", "--threads", "1", "--epochs", "30"]
    run("classify", "more.txt", "--test", "train.txt", "--output", "kept", *again)
    assert (
        "\naccuracy on the test rows: 1.0000 before training, 1.0000 now" in capsys.readouterr().err
    )
    run("classify", "swapped.txt", "--test", "train.txt", "--output", "worse", *again)
    assert (
        "warning: accuracy on the test rows: 1.0000 before training, 0.0000 now: lower"
        " --learning-rate or --epochs" in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("first", "then", "settings"),
    [
        ("--weights sparse --objective ova", "", ("start", "weights", "optimizer")),
        ("", "--objective ova", ("start", "objective")),
        ("--hidden 4", "--hidden 5", ("start", "hidden")),
        ("", "--scaling l2", ("start", "scaling")),
        ("", "--bias none", ("start", "bias")),
        ("", "--word-ngrams 2", ("word_ngrams", "start")),
        ("--objective hs", "", ("start", "objective")),
    ],
)
def test_what_cannot_continue_is_said_in_a_line(place, first, then, settings):
    trained("--scaling", "none", *first.split())
    with refused(*settings):
        run("classify", "more.txt", "--start", "m", "--output", "n", *then.split())
    assert not (place / "n").exists()


def test_a_hidden_layer_starts_from_word_vectors(place):
    vectors = {"nice": [3.0, 0, 0, 4], "awful": [0, -5.0, 0, 0], "elsewhere": [1, 1, 1, 1]}
    (place / "v.vec").write_text(
        "3 4\n" + "".join(f"{word} {' '.join(map(str, v))}\n" for word, v in vectors.items())
    )
    model = trained("--pretrained", "v.vec", "--learning-rate", "1e-12")
    rows = dict(zip(model.known.vocabulary, model.arrays["hidden"], strict=True))
    # of their root mean square, to that of uniform numbers within ±1/√4
    scale = 1 / np.sqrt(50 / 8) / np.sqrt(3 * 4)
    for word in ("nice", "awful"):
        np.testing.assert_allclose(rows[word], np.array(vectors[word]) * scale, atol=1e-6)
    assert 0 < np.abs(rows["film"]).max() <= 0.5
    (place / "none.vec").write_text("1 2\nelsewhere 1 2\n")
    (place / "rows.svm").write_text("a 1:1\nb 2:1\n" * 5)
    for line, file, others in (
        ("train.txt --pretrained v.vec --hidden 5", "v.vec", ("hidden",)),
        ("train.txt --pretrained none.vec", "none.vec", ("lowercase",)),
        ("rows.svm --pretrained v.vec", "v.vec", ()),
    ):
        with refused("pretrained", *others, value=file):
            run("classify", *line.split(), "--output", "n")
