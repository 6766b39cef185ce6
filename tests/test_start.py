"""Training that continues from a model: the words it has, what is reported and what is refused."""

import random

import numpy as np
import pytest

import embedx
from embedx.errors import DataError
from embedx.evaluation.word_sets import WordTests
from embedx.skipgram import start as start_of
from embedx.skipgram.configuration import configure
from embedx.skipgram.reading import read_corpora
from embedx.skipgram.run import WordVectorsRun
from embedx.tasks.words import report_scores
from embedx.vectors.model import WordVectors
from tests.support import word_training
from tests.support.commands import invoke
from tests.support.continued_training import FEW, MORE, TEXT, rows, train_more
from tests.support.notes import Notes, lines_with
from tests.support.refusals import refused, refused_data
from tests.support.two_topics import CARS, CATS, COMMON


def test_counts_are_added_up_and_new_words_join(start_folder):
    old = embedx.load(start_folder())
    new = train_more(start_folder()).model
    counts = [dict(zip(model.words, model.counts.tolist(), strict=True)) for model in (old, new)]
    more = [word for sentence in MORE for word in sentence]
    assert counts[1] == {
        word: counts[0].get(word, 0) + more.count(word) for word in {*old.words, *more}
    }
    assert list(new.counts) == sorted(new.counts, reverse=True)
    assert (new.facts["words_kept"], new.facts["words_added"]) == (16, 2)
    assert new.settings["start"] == str(start_folder())
    assert new.vectors.shape == (18, 8)


def test_only_frequent_words_are_added_and_words_of_a_list(start_folder, write):
    often = train_more(start_folder(), [*MORE, ["once", "the"]], min_count=2).model
    assert set(often.words) == {*CATS, *CARS, *COMMON, "kitty", "lorry"}
    largest = train_more(start_folder(), [*MORE, ["kitty"] * 300], max_vocab=17).model
    assert set(largest.words) == {*CATS, *CARS, *COMMON, "kitty"}
    listed = {**FEW, "start": str(start_folder()), "vocab": write("lorry 7\nnowhere\n")}
    del listed["min_count"]
    assert set(embedx.SkipGram(**listed).fit(MORE).model.words) == {*CATS, *CARS, *COMMON, "lorry"}


def test_the_model_of_start_is_read_once(start_folder, monkeypatch):
    read = []

    def load(path):
        read.append(path)
        return embedx.load(path)

    monkeypatch.setattr(start_of, "load", load)
    train_more(start_folder())
    assert read == [str(start_folder())]


def test_a_note_reports_what_continued_training_keeps(start_folder):
    progress = Notes()
    word_training.train(
        MORE,
        configure("hs", FEW | {"start": str(start_folder()), "freeze": True}),
        progress=progress,
    )
    (note,) = [note for note in progress.notes if note.startswith("continuing")]
    n, m = (sum(map(len, text)) for text in (TEXT, MORE))
    assert (
        note
        == f"continuing from {start_folder()}: 16 words kept and frozen, 14 of them in this text; 2"
        f" added; {n:,} + {m:,} words of text; kept: word vectors; reset: output vectors,"
        " biases, the optimiser's state"
    )


def test_text_in_another_case_or_with_another_tokenizer_gets_a_warning(start_folder):
    def warnings(text):
        progress = Notes()
        config = configure("ns", FEW | {"start": str(start_folder()), "epochs": 1})
        WordVectorsRun.resolved(read_corpora(text, config, progress, None), config, progress)
        return progress.warnings

    assert not warnings(MORE)
    upper = [[word.capitalize() for word in sentence] for sentence in MORE]
    (case,) = warnings(upper)
    assert "would be in lower case; train with --lowercase" in case
    marked = [[*sentence[:-1], f"{sentence[-1]}."] for sentence in MORE]
    (marks,) = warnings(marked)
    assert "without punctuation at their end; train with --tokenizer words" in marks
    (other,) = warnings([["der", "Hund", "bellt", "laut"]] * 9)
    assert lines_with(other, "100.0% of the tokens", "language")


def test_held_out_text_is_scored_before_and_after_and_a_fall_is_warned_of(start_folder):
    def notes(**options):
        progress = Notes()
        options = FEW | {"start": str(start_folder()), "heldout": 0.2} | options
        word_training.train(MORE, configure("ns", options), progress=progress)
        return [note for note in progress.notes if "before training" in note]

    (better,) = notes()
    assert not better.startswith("warning")
    (worse,) = notes(learning_rate=30.0, optimizer="adagrad", anchored=False, epochs=1)
    assert worse.startswith("warning: held-out log-likelihood")
    assert "lower --learning-rate or --epochs" in worse


def test_scores_that_fall_are_warned_of(write):
    words = [f"w{k}" for k in range(40)]
    rng = np.random.default_rng(0)
    good = WordVectors(words, {"input": rng.normal(size=(40, 5)).astype(np.float32)})
    bad = WordVectors(words, {"input": rng.normal(size=(40, 5)).astype(np.float32)})
    pairs = [(a, b) for a in words[:20] for b in words[20:]]
    lines = [f"{a}\t{b}\t{good.similarity(a, b)}\n" for a, b in pairs]
    tests = WordTests(pairs=[write("".join(lines))])
    progress = Notes()
    scores = report_scores(bad, good, progress, tests)
    assert min(scores.values()) < 0.5 < max(scores.values())
    (warning,) = progress.warnings
    assert "1.000 before" in warning
    assert "lower --learning-rate or --epochs" in warning
    progress = Notes()
    report_scores(good, good, progress, tests)
    assert not progress.warnings


def test_held_out_counts_of_both_texts_are_left_out_of_frequencies(start_folder, tmp_path):
    options = {**FEW, "heldout": 0.4}
    old = embedx.SkipGram(**options).fit(TEXT).save(tmp_path / "old")
    new = train_more(old, TEXT, heldout=0.4).model
    before = embedx.load(old)
    np.testing.assert_array_equal(
        rows(new, before.words, "heldout_counts"), 2 * before.arrays["heldout_counts"]
    )
    elsewhere = train_more(old, MORE, heldout=0.4).model
    absent = ["cat", "truck"]
    np.testing.assert_array_equal(
        rows(elsewhere, absent, "heldout_counts"), rows(before, absent, "heldout_counts")
    )
    continued = train_more(old, TEXT).model
    np.testing.assert_array_equal(
        rows(continued, before.words, "heldout_counts"), before.arrays["heldout_counts"]
    )


def test_collocations_of_the_model_are_joined_in_the_new_text(tmp_path):
    text = [["in", "new", "york", *random.Random(k).choices("abcdefgh", k=6)] for k in range(60)]
    estimator = embedx.SkipGram(
        phrases=1, phrase_threshold=0.5, phrase_min_count=20, connector_words="of", **FEW
    ).fit(text)
    old = estimator.save(tmp_path / "old")
    assert "in_new" in estimator.model
    new = train_more(old, [["in", "new", "jersey", "in"]] * 30).model
    assert {"in_new", "jersey"} <= set(new.words)
    assert "new" not in new
    saved = embedx.load(new.save(tmp_path / "new"))
    assert saved.phrases.identity() == embedx.load(old).phrases.identity()
    assert saved.phrases.connectors == ("of",)


@pytest.mark.parametrize(
    ("options", "settings", "quoted"),
    [
        ({"dim": 9}, ("dim", "start"), "8"),
        ({"max_vocab": 5}, ("max_vocab", "start"), "16 words"),
        ({"phrases": 1}, ("phrases", "start"), ""),
        ({"start": None, "freeze": True}, ("freeze", "start"), ""),
        ({"vocab": "nowhere"}, ("min_count", "vocab"), ""),
    ],
)
def test_options_that_do_not_fit_the_start_model_are_refused(
    start_folder, options, settings, quoted
):
    with refused(*settings, quoting=quoted):
        train_more(start_folder(), **options)


def test_a_start_model_that_does_not_exist_is_refused(start_folder):
    with refused_data("nowhere"):
        train_more(start_folder(), start="nowhere")


def test_the_command_keeps_the_models_settings_and_the_model(
    start_folder, write, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    more = write("\n".join(map(" ".join, MORE)), "more.txt")
    typed = [
        "train",
        more,
        "--start",
        str(start_folder("ar")),
        "--epochs",
        "1",
        "--min-count",
        "1",
        "--output",
    ]
    invoke(*typed, "out", "--json")
    new = embedx.load("out")
    assert (new.facts["objective"], new.vectors.shape) == ("ar", (18, 8))
    log = capsys.readouterr().err
    assert lines_with(log, "continuing from")
    (inherited,) = lines_with(log, "--start: --objective ar", "--dim 8")
    assert "--epochs" not in inherited
    kept = start_folder("ar")
    with refused(None, "start", "output", kind=DataError, file=kept):
        invoke(*typed, str(kept), "--overwrite")
    with refused("start", "collapsed"):
        invoke(*typed, "other", "--collapsed", "--objective", "softmax")
    assert not (tmp_path / "other").exists()
