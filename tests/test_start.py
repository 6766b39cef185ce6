"""Training that continues from a model: its words keep their vectors, new words join them, and
what cannot be is refused in one line.
"""

import dataclasses
import random

import numpy as np
import pytest

import embedx
from embedx.errors import DataError
from embedx.evaluation import held_out
from embedx.evaluation.word_sets import WordTests
from embedx.objectives import OBJECTIVES
from embedx.skipgram import start as start_of
from embedx.skipgram.configuration import configure
from embedx.skipgram.reading import read_corpora
from embedx.skipgram.run import WordVectorsRun
from embedx.skipgram.settings import StartSettings
from embedx.skipgram.start import RATE, Start
from embedx.skipgram.strategies import empty_tables
from embedx.tasks.words import report_scores
from embedx.vectors.model import WordVectors
from tests.support import word_training
from tests.support.commands import invoke
from tests.support.notes import Notes, lines_with
from tests.support.objective_classes import REPRESENTATIVES
from tests.support.refusals import refused, refused_data

CATS = ["cat", "dog", "purr", "fur", "paw", "tail"]
CARS = ["car", "truck", "engine", "wheel", "road", "fuel"]
COMMON = ["the", "a", "and", "is"]
FEW = {"dim": 8, "epochs": 5, "threads": 1, "min_count": 1, "sample": 0, "window": 3}


def a_text(n=1000, seed=0, called=None):
    """Sentences about cats or about cars; `called` gives words another name."""
    rng = random.Random(seed)
    sentences = []
    for _ in range(n):
        topic = rng.choice((CATS, CARS)) + COMMON
        sentences.append(
            [(called or {}).get(word, word) for word in rng.choices(topic, k=rng.randint(4, 16))]
        )
    return sentences


TEXT = a_text()
MORE = a_text(seed=1, called={"cat": "kitty", "truck": "lorry"})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Finds the folder of a model that was trained on TEXT, by objective."""
    folders = {}
    where = tmp_path_factory.mktemp("models")

    def find(objective="ns"):
        if objective not in folders:
            folders[objective] = (
                embedx.SkipGram(objective=objective, **FEW).fit(TEXT).save(where / objective)
            )
        return folders[objective]

    return find


def train_more(folder, text=MORE, **options):
    return embedx.SkipGram(**{**FEW, "start": str(folder), **options}).fit(text)


def rows(model, words, name):
    return model.arrays[name][[model.index(word) for word in words]]


def test_counts_are_added_up_and_new_words_join(folder):
    old = embedx.load(folder())
    new = train_more(folder()).model
    counts = [dict(zip(model.words, model.counts.tolist(), strict=True)) for model in (old, new)]
    more = [word for sentence in MORE for word in sentence]
    assert counts[1] == {
        word: counts[0].get(word, 0) + more.count(word) for word in {*old.words, *more}
    }
    assert list(new.counts) == sorted(new.counts, reverse=True)
    assert (new.facts["words_kept"], new.facts["words_added"]) == (16, 2)
    assert new.settings["start"] == str(folder())
    assert new.vectors.shape == (18, 8)


def test_only_frequent_words_are_added_and_words_of_a_list(folder, write):
    often = train_more(folder(), [*MORE, ["once", "the"]], min_count=2).model
    assert set(often.words) == {*CATS, *CARS, *COMMON, "kitty", "lorry"}
    largest = train_more(folder(), [*MORE, ["kitty"] * 300], max_vocab=17).model
    assert set(largest.words) == {*CATS, *CARS, *COMMON, "kitty"}
    listed = {**FEW, "start": str(folder()), "vocab": write("lorry 7\nnowhere\n")}
    del listed["min_count"]
    assert set(embedx.SkipGram(**listed).fit(MORE).model.words) == {*CATS, *CARS, *COMMON, "lorry"}


def test_the_model_of_start_is_read_once(folder, monkeypatch):
    read = []

    def load(path):
        read.append(path)
        return embedx.load(path)

    monkeypatch.setattr(start_of, "load", load)
    train_more(folder())
    assert read == [str(folder())]


def test_a_note_reports_what_continued_training_keeps(folder):
    progress = Notes()
    word_training.train(
        MORE, configure("hs", FEW | {"start": str(folder()), "freeze": True}), progress=progress
    )
    (note,) = [note for note in progress.notes if note.startswith("continuing")]
    n, m = (sum(map(len, text)) for text in (TEXT, MORE))
    assert (
        note == f"continuing from {folder()}: 16 words kept and frozen, 14 of them in this text; 2"
        f" added; {n:,} + {m:,} words of text; kept: word vectors; reset: output vectors,"
        " biases, the optimiser's state"
    )


@pytest.mark.parametrize("objective", ["ns", "ar", "softmax", "hs", "implicit"])
def test_continued_training_on_the_same_text_keeps_the_vectors(folder, objective):
    old = embedx.load(folder(objective))
    new = train_more(folder(objective), TEXT, objective=objective).model
    assert new.words == old.words
    pairs, calibration = held_out.pairs_of(a_text(seed=2), old)
    before = held_out.evaluate(old, pairs, calibration)
    after = held_out.evaluate(new, pairs, calibration)
    assert after.log_likelihood > before.log_likelihood - 0.01
    fresh = embedx.SkipGram(objective=objective, **{**FEW, "epochs": 1}).fit(TEXT).model
    continued = train_more(
        folder(objective), TEXT, objective=objective, epochs=1, learning_rate=1e-3
    ).model

    def distance_to_old(model):
        return np.abs(rows(model, old.words, "input") - old.vectors).max()

    assert distance_to_old(continued) < 0.1 < distance_to_old(fresh)


@pytest.mark.parametrize("objective", ["ns", "ar", "hs"])
def test_kept_rows_are_means_weighted_by_their_counts_in_both_texts(folder, objective):
    old = embedx.load(folder(objective))
    new = train_more(folder(objective), objective=objective).model
    free = train_more(folder(objective), objective=objective, anchored=False).model
    former = old.counts[:, None]
    counts = new.counts[[new.index(word) for word in old.words]][:, None]
    array_names = ["input"] if objective == "hs" else ["input", "output"]
    for name in array_names:
        trained = rows(free, old.words, name)
        mean = (former * old.arrays[name] + (counts - former) * trained) / counts
        np.testing.assert_allclose(rows(new, old.words, name), mean, atol=1e-6)
    if objective == "ar":
        trained = rows(free, old.words, "bias")
        mean = (former[:, 0] * old.arrays["bias"] + (counts - former)[:, 0] * trained) / counts[
            :, 0
        ]
        np.testing.assert_allclose(rows(new, old.words, "bias"), mean, atol=1e-6)
    is_new = ["kitty", "lorry"]
    assert rows(new, is_new, "input").tobytes() == rows(free, is_new, "input").tobytes()
    assert not np.array_equal(rows(free, old.words, "input"), rows(new, old.words, "input"))


def test_ngrams_that_are_in_old_words_alone_stay_where_they_were(tmp_path):
    options = {**FEW, "subwords": "3-3", "buckets": 1000}
    old = embedx.SkipGram(**options).fit(TEXT).model
    new = embedx.SkipGram(**options, start=str(old.save(tmp_path / "old"))).fit([["the", "a"]] * 50)
    same = {"cat", "purr"}
    moved = {"the"}
    for word in same:
        np.testing.assert_array_equal(new.model[word], old[word])
    for word in moved:
        assert not np.array_equal(new.model[word], old[word])


def test_partial_fit_keeps_words_near_their_vectors_too(folder):
    model = embedx.SkipGram(**FEW).fit(TEXT)
    before = {word: model.model[word].copy() for word in ["cat", "fur"]}
    after = model.partial_fit([["fur", "the", "a"]] * 5).model
    np.testing.assert_array_equal(after["cat"], before["cat"])
    assert 0 < np.abs(after["fur"] - before["fur"]).max() < 0.05


def test_without_a_model_there_is_nothing_to_keep_near():
    with refused("anchored", "start"):
        embedx.SkipGram(**FEW, anchored=False)


def test_text_in_another_case_or_with_another_tokenizer_gets_a_warning(folder):
    def warnings(text):
        progress = Notes()
        config = configure("ns", FEW | {"start": str(folder()), "epochs": 1})
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


def test_held_out_text_is_scored_before_and_after_and_a_fall_is_warned_of(folder):
    def notes(**options):
        progress = Notes()
        options = FEW | {"start": str(folder()), "heldout": 0.2} | options
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


@pytest.mark.parametrize("objective", REPRESENTATIVES)
def test_frozen_vectors_stay_to_the_last_bit_and_new_ones_move(folder, objective):
    old = embedx.load(folder())
    names = ["input"] if OBJECTIVES[objective].candidates == ("path",) else ["input", "output"]
    is_new = ["kitty", "lorry"]
    still = train_more(
        folder(), MORE[:100], freeze=True, objective=objective, epochs=1, learning_rate=1e-30
    ).model
    before = rows(still, is_new, "input")
    new = train_more(
        folder(), MORE[:100], freeze=True, objective=objective, epochs=2, threads=2
    ).model
    for name in names:
        assert rows(new, old.words, name).tobytes() == old.arrays[name].tobytes()
    assert (np.abs(rows(new, is_new, "input") - before).max(axis=1) > 1e-3).all()


@pytest.mark.parametrize("objective", ["ar", "ns"])
def test_biases_are_frozen_too(folder, objective):
    """The biases of `ns` are scores of the mean that its vectors no longer have."""
    old = embedx.load(folder(objective))
    new = train_more(folder(objective), freeze=True, objective=objective).model
    for name in ("input", "output", "bias"):
        assert rows(new, old.words, name).tobytes() == old.arrays[name].tobytes()


@pytest.mark.parametrize("freeze", [False, True])
def test_new_words_come_to_lie_near_their_synonyms(folder, freeze):
    new = train_more(folder(), freeze=freeze, epochs=10).model
    nearest = {
        word: {other for other, _ in new.most_similar(word, top_k=4)} for word in ("kitty", "lorry")
    }
    assert nearest["kitty"] <= set(CATS)
    assert nearest["lorry"] <= set(CARS)


@pytest.mark.parametrize("freeze", [False, True])
def test_a_run_that_continues_a_model_resumes_to_the_same_bytes(folder, freeze, stop_after):
    def run(snapshot=None, **options):
        return word_training.train(
            MORE,
            configure("ns", FEW | {"start": str(folder()), "freeze": freeze} | options),
            snapshot=snapshot,
        )

    uninterrupted = run().model.arrays
    stop_after(2)
    snapshot = run().outcome.state.snapshot()
    stop_after(None)
    resumed = run(snapshot).model.arrays
    by_one = run(deterministic=True, threads=1).model.arrays
    by_two = run(deterministic=True, threads=2).model.arrays
    for name in uninterrupted:
        np.testing.assert_array_equal(resumed[name], uninterrupted[name])
        np.testing.assert_array_equal(by_one[name], by_two[name])

    def identity(objective):
        return Start(StartSettings(start=str(folder(objective)))).identity()

    assert identity("ns") != identity("ar")


@pytest.mark.parametrize("name", ["vectors.txt", "vectors.npz"])
def test_the_vectors_of_a_file_are_kept_and_output_vectors_begin_at_zero(folder, tmp_path, name):
    file = tmp_path / name
    embedx.load(folder()).export(file)
    vectors = embedx.load(file)
    config = configure("ns", {**FEW, "start": str(file)})
    run = WordVectorsRun.resolved(read_corpora(MORE, config, Notes(), None), config, Notes())
    run.allocate()
    run.initialise()
    start = run.word_vectors(None)
    np.testing.assert_array_equal(rows(start, vectors.words, "input"), vectors.vectors)
    assert not start.arrays["output"].any()
    times = sum(sentence.count("kitty") for sentence in MORE)
    assert start.counts[start.index("kitty")] == times
    assert start.counts[start.index("cat")] == 1  # not in this text
    assert set(start.words) == {*vectors.words, "kitty", "lorry"}


@pytest.mark.parametrize("objective", ["ns", "softmax", "hs"])
def test_frozen_vectors_of_a_file_do_not_move_while_outputs_are_trained(
    folder, tmp_path, objective
):
    embedx.load(folder()).export(tmp_path / "vectors.txt")
    vectors = embedx.load(tmp_path / "vectors.txt")
    new = train_more(tmp_path / "vectors.txt", objective=objective, freeze=True).model
    np.testing.assert_array_equal(rows(new, vectors.words, "input"), vectors.vectors)
    assert new.arrays["output"].any()
    assert new.facts["objective"] == objective


def test_a_note_counts_the_words_of_start_vectors_and_says_that_outputs_are_zero(folder, tmp_path):
    embedx.load(folder()).export(tmp_path / "vectors.txt")
    notes = Notes()
    config = configure(None, {**FEW, "start": str(tmp_path / "vectors.txt"), "phrases": 1})
    assert config.objective.name == "ns"
    word_training.train(MORE, config, progress=notes)
    assert any("16 words kept" in note and "zero" in note for note in notes.notes)


def test_held_out_counts_of_both_texts_are_left_out_of_frequencies(folder, tmp_path):
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


def test_kept_rows_begin_at_the_rate_of_plain_descent(folder):
    config = configure("ns", FEW | {"start": str(folder()), "optimizer": "rowwise-adagrad"})
    start = config.start
    settings = dataclasses.replace(config.settings, learning_rate=0.5)
    objective = config.objective
    words = [*start.model.words, "new"]
    tables = empty_tables(objective, settings, config.new_sampler(), 17)
    start.write(tables, words, objective, settings, np.zeros(0, np.int32))
    for table in (tables.inputs, tables.outputs):
        rates = settings.learning_rate / np.sqrt(table.state[:-1, 0])
        np.testing.assert_allclose(rates, RATE, rtol=1e-5)
        assert table.state[-1, 0] == 0
    np.testing.assert_array_equal(tables.inputs.rows[:-1, :8], start.model.vectors)


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
def test_options_that_do_not_fit_the_start_model_are_refused(folder, options, settings, quoted):
    with refused(*settings, quoting=quoted):
        train_more(folder(), **options)


def test_a_start_model_that_does_not_exist_is_refused(folder):
    with refused_data("nowhere"):
        train_more(folder(), start="nowhere")


def test_the_command_keeps_the_models_settings_and_the_model(
    folder, write, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    more = write("\n".join(map(" ".join, MORE)), "more.txt")
    typed = [
        "train",
        more,
        "--start",
        str(folder("ar")),
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
    kept = folder("ar")
    with refused(None, "start", "output", kind=DataError, file=kept):
        invoke(*typed, str(kept), "--overwrite")
    with refused("start", "collapsed"):
        invoke(*typed, "other", "--collapsed", "--objective", "softmax")
    assert not (tmp_path / "other").exists()
