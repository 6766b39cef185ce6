"""Classifiers that start from something: from a model, with new rows and labels, or from word
vectors.
"""

import numpy as np
import pytest
from scipy.sparse import random as random_rows

from embedx import SoftmaxClassifier
from embedx.classification.classifier import load
from embedx.errors import InapplicableError
from embedx.labeled.read import read
from tests.support.commands import invoke as run, words_of
from tests.support.notes import lines_with
from tests.support.refusals import refused

TEXT = "".join(
    f"__label__{name} {word} a film\n" for name, word in (("good", "nice"), ("bad", "awful")) * 40
)
MORE = "__label__odd strange a plot\n" * 40 + TEXT[: len(TEXT) // 2]


TOPICS = ("tea", "coffee", "cocoa", "juice")


def tickets(rng, topics, n):
    """Lines of one of these topics each: two words of its own among three of any."""
    words_of = {topic: [f"{topic}{k}" for k in range(12)] for topic in TOPICS}
    words = [word for own_words in words_of.values() for word in own_words]
    lines = []
    for topic in rng.choice(topics, n):
        text = [*rng.choice(words_of[topic], 2), *rng.choice(words, 3)]
        lines.append(f"__label__{topic} {' '.join(text)}\n")
    return "".join(lines)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.txt").write_text(TEXT)
    (tmp_path / "more.txt").write_text(MORE)
    return tmp_path


def trained(*options):
    run("classify", "train.txt", "--output", "m", "--threads", "1", "--epochs", "30", *options)
    return load("m")


def test_a_classifier_continues_as_by_partial_fit(folder):
    rng = np.random.default_rng(0)
    x = random_rows(200, 30, 0.2, "csr", np.float32, rng=rng)
    y = rng.integers(0, 5, 200)
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
    (folder / "rows.txt").write_text("\n".join(lines) + "\n")
    options = (
        "--epochs 1 --schedule constant --learning-rate 0.5 --batch-size 10 --seed 5 --threads 1"
        " --calibration 0 --set anchored=no"
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
        ["--objective", "ova", "--loss", "squared-hinge", "--weights", "sparse"],
        ["--objective", "ova", "--weights", "sparse", "--optimizer", "adagrad", "--bias", "none"],
    ],
)
def test_new_labels_are_learned_and_old_ones_kept(folder, capsys, options):
    before = trained(*options)
    capsys.readouterr()
    run("classify", "more.txt", "--start", "m", "--output", "m", "--overwrite", "--threads", "1")
    assert lines_with(capsys.readouterr().err, "3 labels, 1 of them new: odd")
    after = load("m")
    assert [after.name(k) for k in range(3)] == ["good", "bad", "odd"]
    assert after.trained_counts.tolist() == [*before.counts, 40]
    assert after.counts.tolist() == [60, 60, 40]
    assert after.schema.vocabulary == before.schema.vocabulary  # "strange" and "plot" are not known
    for file in ("train.txt", "more.txt"):
        data = read(file, schema=after.schema)
        assert np.mean(next(after.iter_top_k(data.features, 1))[0][:, 0] == data.labels.ids) > 0.95


def test_settings_of_the_model_are_named_in_one_line(folder, capsys):
    trained("--objective", "softmax", "--scaling", "tf-idf")
    capsys.readouterr()
    run("classify", "more.txt", "--start", "m", "--output", "n", "--epochs", "2")
    command, inherited, *others = capsys.readouterr().err.splitlines()
    assert command == "embedx classify more.txt --output n --start m --epochs 2"
    assert "--start: --objective softmax " in inherited
    assert "--scaling tf-idf" in inherited
    assert "--epochs" not in inherited
    assert not lines_with(others, "--scaling")


@pytest.mark.parametrize(
    "options", [[], ["--hidden", "8"], ["--hidden", "8", "--scaling", "tf-idf"]]
)
def test_labels_of_the_model_get_the_mean_of_old_and_trained_weights(folder, options):
    before = trained("--objective", "softmax", *options)
    (folder / "good.txt").write_text(
        "__label__good nice a film\n" * 40 + "__label__odd strange a plot\n" * 40
    )
    again = ["good.txt", "--start", "m", "--threads", "1", "--calibration", "0"]
    run("classify", *again, "--set", "anchored=no", "--output", "plain")
    run("classify", *again, "--output", "anchored")
    plain = load("plain").arrays
    anchored = load("anchored").arrays
    # Of 40 old and 40 new rows of "good", of "bad" without new ones, and of all 80 and 80.
    weights = {"good": 40 / 80 if options else np.sqrt(40 / 80), "bad": 80 / 160}
    for label, name in enumerate(weights):
        for array in ("output", "bias"):
            old = before.arrays[array][label]
            mean = old + weights[name] * (plain[array][label] - old)
            np.testing.assert_allclose(anchored[array][label], mean, atol=1e-6)
    for array in ("output", "bias"):
        np.testing.assert_array_equal(anchored[array][2], plain[array][2])
    if options:
        old = before.arrays["hidden"]
        share = np.full(4, 80 / 160)
        if "tf-idf" in options:
            share_of_word = {"nice": 40 / 80, "awful": 0, "a": 80 / 160, "film": 40 / 120}
            share = np.array([share_of_word[word] for word in before.schema.vocabulary])
        mean = old + np.sqrt(share)[:, None] * (plain["hidden"] - old)
        np.testing.assert_allclose(anchored["hidden"], mean, atol=1e-5)


def test_a_classifier_that_continues_forgets_less_of_its_old_rows(folder):
    rng = np.random.default_rng(0)
    (folder / "old.txt").write_text(tickets(rng, ["tea", "coffee", "tea", "cocoa"], 400))
    (folder / "new.txt").write_text(tickets(rng, ["cocoa"], 60))
    (folder / "test.txt").write_text(tickets(rng, ["tea", "coffee"], 300))
    options = ["--threads", "1", "--objective", "softmax", "--calibration", "0"]
    run("classify", "old.txt", "--output", "m", *options)
    accuracy = {}
    for anchored in ("yes", "no"):
        again = ["--start", "m", "--set", f"anchored={anchored}", "--threads", "1"]
        run("classify", "new.txt", "--output", anchored, *again)
        data = read("test.txt", schema=load(anchored).schema)
        accuracy[anchored] = load(anchored).evaluate(data)["accuracy"]
    assert accuracy["yes"] > accuracy["no"] + 0.05


def test_the_default_classifier_gets_no_worse_by_new_rows(folder):
    rng = np.random.default_rng(0)
    (folder / "old.txt").write_text(tickets(rng, TOPICS[:3], 400))
    (folder / "new.txt").write_text(tickets(rng, TOPICS[2:], 100))
    (folder / "old-test.txt").write_text(tickets(rng, TOPICS[:3], 300))
    (folder / "new-test.txt").write_text(tickets(rng, TOPICS[2:], 300))
    as_by_default = ["--objective", "ova", "--loss", "squared-hinge", "--weights", "sparse"]

    def accuracies(model):
        tests = [read(f"{name}-test.txt", schema=model.schema) for name in ("old", "new")]
        return [model.evaluate(test)["accuracy"] for test in tests]

    def continued(label_features):
        """The accuracies on old and new test rows, before training continues and after it."""
        options = [*as_by_default, "--set", f"label-features={label_features}"]
        names = [f"{label_features}-{name}" for name in ("before", "after")]
        run("classify", "old.txt", "--output", names[0], "--threads", "1", *options)
        run("classify", "new.txt", "--start", names[0], "--output", names[1], "--threads", "1")
        before, after = map(load, names)
        assert after.settings["weights"] == "sparse"
        assert after.settings["label_features"] == label_features
        return accuracies(before), accuracies(after)

    (of_old, of_new), (of_old_now, of_new_now) = continued("positives")
    assert of_old_now > of_old - 0.03
    assert of_new_now > of_new + 0.3
    # the default of few weights, within the standard error of 300 test rows
    (of_old, _), (of_old_by_all, of_new_by_all) = continued("all")
    assert of_old_by_all > of_old - 0.03
    assert of_new_by_all > of_new_now - 0.025


def test_a_classifier_that_continues_with_few_rows_keeps_its_calibration(folder):
    rng = np.random.default_rng(0)
    (folder / "old.txt").write_text(tickets(rng, TOPICS[:3], 1200))
    (folder / "new.txt").write_text(tickets(rng, TOPICS[:3], 50))
    run("classify", "old.txt", "--output", "m", "--threads", "1")
    run("classify", "new.txt", "--start", "m", "--output", "n", "--threads", "1")
    before = load("m")
    after = load("n")
    for name in ("calibration", "familiarity", "coverage"):
        np.testing.assert_array_equal(after.arrays[name], before.arrays[name])
    assert after.facts["temperature"] == before.facts["temperature"]


def test_the_best_epoch_of_a_classifier_that_continues_is_anchored(folder):
    trained("--objective", "softmax")
    again = ["more.txt", "--start", "m", "--threads", "1", "--validation", "train.txt"]
    run("classify", *again, "--set", "patience=1", "--output", "n")
    model = load("n")
    scores = [epoch["validation"]["log_likelihood"] for epoch in model.facts["history"]]
    measured = model.evaluate(read("train.txt", schema=model.schema))["log_likelihood"]
    assert measured == pytest.approx(max(scores), abs=1e-4)


def test_a_loaded_classifier_is_anchored_by_partial_fit_and_one_just_fitted_is_not(folder):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 5)).astype(np.float32)
    y = rng.integers(0, 3, 200)
    options = {"optimizer": "adagrad", "epochs": 5, "random_state": 1, "n_jobs": 1}
    fitted = SoftmaxClassifier("softmax", **options).fit(x[:100], y[:100])
    fitted.save(folder / "m")
    old = fitted.classifier_.arrays["output"].copy()
    loaded = SoftmaxClassifier.load(folder / "m").partial_fit(x[100:], y[100:])
    plain = SoftmaxClassifier.load(folder / "m").set_params(anchored=False)
    plain.partial_fit(x[100:], y[100:])
    moved = [np.abs(model.classifier_.arrays["output"] - old).sum() for model in (loaded, plain)]
    assert 0.6 < moved[0] / moved[1] < 0.8
    just_fitted = SoftmaxClassifier("softmax", **options).fit(x[:100], y[:100])
    unanchored = SoftmaxClassifier("softmax", **options, anchored=False).fit(x[:100], y[:100])
    for model in (just_fitted, unanchored):
        model.partial_fit(x[100:], y[100:])
    np.testing.assert_array_equal(
        just_fitted.classifier_.arrays["output"], unanchored.classifier_.arrays["output"]
    )


def test_the_accuracy_before_is_shown_and_a_fall_is_warned_of(folder, capsys):
    trained("--weights", "dense", "--optimizer", "adagrad")
    (folder / "swapped.txt").write_text(
        TEXT.replace("good", "?").replace("bad", "good").replace("?", "bad")
    )
    again = ["--start", "m", "--threads", "1", "--epochs", "30"]
    run("classify", "more.txt", "--test", "train.txt", "--output", "kept", *again)
    (accuracies,) = lines_with(capsys.readouterr().err, "1.0000 before", "1.0000 now")
    assert "warning" not in accuracies
    run("classify", "swapped.txt", "--test", "train.txt", "--output", "worse", *again)
    (accuracies,) = lines_with(capsys.readouterr().err, "1.0000 before", "0.0000 now")
    assert accuracies.startswith("warning: ")
    assert "--learning-rate or --epochs" in accuracies
    as_by_default = ["--objective", "ova", "--loss", "squared-hinge", "--weights", "sparse"]
    (folder / "many.txt").write_text((folder / "swapped.txt").read_text() * 3)
    run("classify", "train.txt", "--output", "s", "--threads", "1", *as_by_default)
    again = ["--start", "s", "--threads", "1"]
    run("classify", "many.txt", "--test", "train.txt", "--output", "worse", "--overwrite", *again)
    (accuracies,) = lines_with(capsys.readouterr().err, "0.0000 now")
    assert accuracies.startswith("warning: ")
    assert "--learning-rate" not in accuracies


def test_a_fall_that_may_be_chance_is_shown_without_a_warning(folder, capsys):
    (folder / "old.txt").write_text(TEXT + "__label__good rare\n" * 3)
    (folder / "new.txt").write_text("__label__bad rare\n" * 60 + TEXT)
    (folder / "test.txt").write_text(TEXT + "__label__good rare\n")
    run("classify", "old.txt", "--output", "m", "--threads", "1")
    capsys.readouterr()
    run(*words_of("classify new.txt --start m --test test.txt --output n --threads 1"))
    messages = capsys.readouterr().err
    assert lines_with(messages, "1.0000 before", "0.9877 now")
    warnings = lines_with(messages, "warning: ")
    assert warnings == lines_with(warnings, "81 of 81 test rows")  # are among the training rows


@pytest.mark.parametrize(
    ("first", "then", "settings"),
    [
        ("--weights sparse --objective ns", "", ("start", "weights", "optimizer")),
        ("--weights tree --set leaf-size=1", "", ("start", "weights")),
        ("--weights sparse --objective ova", "--set anchored=no", ("start", "anchored")),
        ("--weights sparse --objective ova", "--weights dense", ("start", "weights")),
        ("", "--objective ova", ("start", "objective")),
        ("--hidden 4", "--hidden 5", ("start", "hidden")),
        ("", "--scaling l2", ("start", "scaling")),
        ("", "--bias none", ("start", "bias")),
        ("", "--word-ngrams 2", ("word_ngrams", "start")),
        ("--objective hs", "", ("start", "objective")),
    ],
)
def test_models_that_cannot_continue_are_refused_in_one_line(folder, first, then, settings):
    trained("--scaling", "none", *first.split())
    with refused(*settings):
        run("classify", "more.txt", "--start", "m", "--output", "n", *then.split())
    assert not (folder / "n").exists()


def test_the_mean_is_for_models_that_continue(folder):
    with refused("anchored", "start", kind=InapplicableError):
        run("classify", "train.txt", "--set", "anchored=no")
    assert "anchored" not in trained().settings


def test_a_hidden_layer_starts_from_word_vectors(folder):
    vectors = {"nice": [3.0, 0, 0, 4], "awful": [0, -5.0, 0, 0], "elsewhere": [1, 1, 1, 1]}
    (folder / "v.vec").write_text(
        "3 4\n" + "".join(f"{word} {' '.join(map(str, v))}\n" for word, v in vectors.items())
    )
    model = trained("--pretrained", "v.vec", "--learning-rate", "1e-12")
    rows = dict(zip(model.schema.vocabulary, model.arrays["hidden"], strict=True))
    # of their root mean square, to that of uniform numbers within ±1/√4
    scale = 1 / np.sqrt(50 / 8) / np.sqrt(3 * 4)
    for word in ("nice", "awful"):
        np.testing.assert_allclose(rows[word], np.array(vectors[word]) * scale, atol=1e-6)
    assert 0 < np.abs(rows["film"]).max() <= 0.5
    (folder / "none.vec").write_text("1 2\nelsewhere 1 2\n")
    (folder / "rows.svm").write_text("a 1:1\nb 2:1\n" * 5)
    for line, file, others in (
        ("train.txt --pretrained v.vec --hidden 5", "v.vec", ("hidden",)),
        ("train.txt --pretrained none.vec", "none.vec", ("lowercase",)),
        ("rows.svm --pretrained v.vec", "v.vec", ()),
    ):
        with refused("pretrained", *others, value=file):
            run("classify", *line.split(), "--output", "n")
