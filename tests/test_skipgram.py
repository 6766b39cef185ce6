"""Word vectors from Python, and what a user counts on whatever the corpus looks like."""

import io
import json
import pickle
import re

import numpy as np
import pytest

import embedx
from embedx.engine import skipgram as engine
from embedx.objectives import OBJECTIVES
from embedx.runtime.progress import Reporter, Silent
from embedx.skipgram import resolve as resolving
from embedx.skipgram.configuration import configure
from embedx.skipgram.resolve import CountedText, resolve_settings, warn_of_rate
from embedx.skipgram.run import WordVectorsRun
from embedx.text.encode import encode
from embedx.text.subsampling import WHOLE_SENTENCE
from embedx.training import life
from tests.support import word_training
from tests.support.notes import lines_with
from tests.support.refusals import refused_data
from tests.support.two_topics import CATS


def sentences_of(path):
    return [line.split() for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def fitted(two_topics):
    return embedx.SkipGram(objective="ns", dim=16, epochs=5, sample=0, threads=1).fit(two_topics)


@pytest.mark.parametrize("corpora", [None, 5, lambda: iter([["a", "b"]])])
def test_corpora_that_are_neither_names_nor_sentences_are_refused(corpora):
    with refused_data("corpora"):
        embedx.SkipGram(dim=4).fit(corpora)


def test_a_file_and_its_sentences_give_the_same_vectors(fitted, two_topics):
    from_lists = embedx.SkipGram(dim=16, epochs=5, sample=0, threads=1).fit(
        sentences_of(two_topics)
    )
    from_generator = embedx.SkipGram(dim=16, epochs=5, sample=0, threads=1).fit(
        s for s in sentences_of(two_topics)
    )
    assert from_lists.model.words == fitted.model.words
    np.testing.assert_array_equal(from_lists.model.vectors, fitted.model.vectors)
    np.testing.assert_array_equal(from_generator.model.vectors, fitted.model.vectors)


@pytest.mark.parametrize("options", [{}, {"subwords": "3-4"}, {"architecture": "cbow"}])
def test_vectors_trained_without_biases_are_centred_and_all_scores_stay(two_topics, options):
    options = {"dim": 16, "epochs": 2, "sample": 0, "threads": 1, **options}
    config = configure("ns", options)
    with encode([str(two_topics)], config.text, Silent(), None) as corpus:
        run = WordVectorsRun.resolved(corpus, config, Silent())
        model = life.train_model(run, None).model
    trained = engine.input_vectors(run.tables)[:, :16]
    scores = model.vectors @ model.output_vectors.T + model.arrays["bias"]
    np.testing.assert_allclose(scores, trained @ model.output_vectors.T, atol=1e-4)
    assert np.abs(trained.mean(axis=0)).max() > 0.1
    assert np.abs(model.vectors.mean(axis=0)).max() < 1e-5


def test_vectors_of_items_and_those_trained_with_biases_are_not_centred(two_topics):
    options = {"dim": 16, "epochs": 2, "threads": 1}
    items = embedx.SkipGram("ns", format="sessions", **options).fit(two_topics).model
    assert "bias" not in items.arrays
    biased = embedx.SkipGram("ns", bias="zero", sample=0, **options).fit(two_topics).model
    for model in (items, biased):
        assert np.abs(model.vectors.mean(axis=0)).max() > 0.01


def test_another_seed_gives_other_vectors(fitted, two_topics):
    other = embedx.SkipGram(dim=16, epochs=5, sample=0, threads=1, seed=2).fit(two_topics)
    assert not np.array_equal(other.model.vectors, fitted.model.vectors)


def test_the_saved_model_is_the_trained_one(fitted, tmp_path):
    loaded = embedx.load(fitted.save(tmp_path / "model"))
    np.testing.assert_array_equal(loaded.vectors, fitted.model.vectors)
    np.testing.assert_array_equal(loaded.output_vectors, fitted.model.output_vectors)
    assert isinstance(loaded.vectors.base, np.memmap)
    assert loaded.words == fitted.model.words
    assert loaded.settings["negatives"] == 5
    assert (loaded.settings["sample"], loaded.settings["draws"], loaded.settings["threads"]) == (
        0,
        32,
        1,
    )
    assert loaded.facts["final_loss"] == pytest.approx(fitted.outcome.final_loss)


def test_the_final_loss_is_a_mean_per_pair(fitted):
    """With vectors of zero it would be (1 + negatives) log 2 = 4.16; here every pair tells one of
    two topics.
    """
    assert 1.5 < fitted.outcome.final_loss < 6 * np.log(2)
    assert fitted.outcome.tally.mean_loss > fitted.outcome.final_loss
    assert fitted.outcome.tally.items == 5 * fitted.model.counts.sum()


def test_sixteen_threads_learn_what_one_learns(two_topics):
    many = embedx.SkipGram(dim=16, epochs=5, sample=0, threads=16).fit(two_topics)
    assert many.outcome.tally.items == 5 * many.model.counts.sum()
    assert {word for word, _ in many.model.most_similar("cat", top_k=3)} <= set(CATS)


@pytest.mark.parametrize(
    "options",
    [
        {"window": 10, "negatives": 15, "dim": 300},
        {"block_size": 64},
        {"sample": 1e-3, "epochs": 50},
        {"negatives": 50},
    ],
)
def test_a_tiny_vocabulary_does_not_diverge(two_topics, options):
    model = embedx.SkipGram(**({"epochs": 3, "sample": 0} | options)).fit(two_topics).model
    assert np.isfinite(model.vectors).all()


def test_a_vocabulary_of_one_word():
    assert embedx.SkipGram(min_count=1, sample=0).fit([["a", "a", "a"]]).model.words == ["a"]


def test_tokens_may_hold_spaces(tmp_path):
    fitted = embedx.SkipGram(min_count=1, dim=4, sample=0).fit(
        [["New York", "is\ta", "city\n"]] * 3
    )
    assert set(embedx.load(fitted.save(tmp_path / "odd")).words) == {"New York", "is\ta", "city\n"}


@pytest.mark.parametrize(
    "options", [{"block_size": 64, "window": 30}, {"negatives": 2000}, {"block_size": 0}]
)
def test_resolved_defaults_are_within_their_ranges(options):
    config = configure("ns", options)
    counts = np.ones(100_000, dtype=np.int64)
    sampler = config.new_sampler()
    sampler.prepare(counts)
    text = CountedText(len(counts), counts, config.settings.window + 1, sampler)
    used = resolve_settings(config, text).settings
    assert used.block_size == config.settings.block_size
    assert 1 <= used.draws <= 1024
    assert used.threads >= 1


@pytest.mark.parametrize("window", [5, WHOLE_SENTENCE])
def test_text_without_pairs_is_refused_whatever_the_window(tmp_path, window):
    with refused_data("corpora", "min_count"):
        embedx.SkipGram(window=window, cache_dir=tmp_path).fit([["word"]] * 100)


def test_a_tree_of_one_word_has_nothing_to_learn(tmp_path):
    with refused_data("corpora", "min_count"):
        embedx.SkipGram("hs", min_count=1, sample=0, cache_dir=tmp_path).fit([["word", "word"]])


def test_blocks_keep_their_size_where_no_sentence_that_was_looked_at_has_pairs():
    config = configure("ns", {"window": WHOLE_SENTENCE})
    counts = np.ones(1000, dtype=np.int64)
    sampler = config.new_sampler()
    sampler.prepare(counts)
    used = resolve_settings(config, CountedText(1000, counts, 0.0, sampler)).settings
    assert used.block_size == config.settings.block_size


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_setting_that_is_chosen_from_the_text_has_a_value(objective):
    config = configure(objective, {})
    counts = np.ones(1000, dtype=np.int64)
    config.objective.prepare(counts)
    sampler = config.new_sampler()
    sampler.prepare(counts, paths=config.objective.paths())
    settings, origins = resolve_settings(config, CountedText(1000, counts, 6.0, sampler))
    assert None not in {getattr(settings, name) for name in origins}
    assert ("draws" in origins) == (config.settings.draws is None and settings.draws is not None)


@pytest.mark.parametrize(
    ("objective", "draws"),
    [
        ("ns", 32),  # of 5 negatives for each of 96 pairs, one for 15
        ("ove", 31),  # one for 7.5 of 48 pairs, and the positive fills the last of 32 places
        ("sampled-softmax", 31),
        ("ar", 96),  # one for 10 of 192 pairs, beside the other centres of the block
        ("umax", 128),  # one for 7.5
        ("implicit", 64),
    ],
)
def test_a_block_draws_as_many_negatives_as_its_pairs_need(objective, draws):
    config = configure(objective, {})
    counts = np.ones(100_000, dtype=np.int64)
    sampler = config.new_sampler()
    sampler.prepare(counts)
    text = CountedText(len(counts), counts, config.settings.window + 1, sampler)
    assert resolve_settings(config, text).settings.draws == draws


def test_a_repeated_word_does_not_grow_without_bound():
    """In a list such as "genus a genus b ..." each block of 64 has 32 inputs of the same word,
    which move one after another.
    """
    rng = np.random.default_rng(0)
    lines = [[f"w{word}" for word in rng.choice(2000, 20)] for _ in range(2000)]
    lines.insert(1000, [token for k in range(64) for token in ("genus", f"species{k}")])
    model = (
        embedx.SkipGram(dim=16, epochs=3, min_count=1, sample=0, block_size=64, threads=1)
        .fit(lines)
        .model
    )
    assert np.linalg.norm(model.vectors, axis=1).max() < 10
    assert np.linalg.norm(model.output_vectors, axis=1).max() < 10


SMALL = ("bounded-adagrad", 2.0, 16)
LARGE = ("sgd", 0.06, 16)


@pytest.mark.parametrize(
    ("objective", "options", "expected"),
    [
        ("ns", {}, LARGE),
        ("ns", {"learning_rate": None, "heldout": 0.1, "deterministic": True}, LARGE),
        ("ns", {"optimizer": "bounded-adagrad"}, SMALL),
        ("ns", {"learning_rate": 0.5}, ("bounded-adagrad", 0.5, 16)),
        ("ns", {"block_size": 4}, ("sgd", 0.06, 4)),
        ("ns", {"subwords": "3-6"}, ("rowwise-adagrad", 3.0, 8)),
        ("ove", {}, ("rowwise-adagrad", 2.0, 8)),
    ],
)
def test_the_optimizer_of_a_large_text_is_another_unless_one_is_given(
    two_topics, monkeypatch, objective, options, expected
):
    def used():
        model = (
            embedx.SkipGram(objective, dim=4, epochs=1, sample=0, threads=1, **options)
            .fit(two_topics)
            .model
        )
        return model.counts.sum(), tuple(
            model.settings[name] for name in ("optimizer", "learning_rate", "block_size")
        )

    monkeypatch.setattr(resolving, "MAX_PAIRS_PER_ROW", 1000)  # for blocks of 16 of few words
    n_tokens, small = used()
    monkeypatch.setattr(resolving, "LARGE_TEXT", n_tokens + 1)
    assert used()[1] == small
    monkeypatch.setattr(resolving, "LARGE_TEXT", n_tokens)
    assert used()[1] == expected
    assert (small == expected) == (expected[0] != "sgd")


@pytest.mark.parametrize(
    ("options", "quoted"),
    [
        (
            {"learning_rate": 0.025},
            ["learning_rate=0.025 ", "from 2,", "bounded-adagrad", "optimizer='sgd'"],
        ),
        ({"learning_rate": 2.0, "optimizer": "sgd"}, ["learning_rate=2.0 ", "from 0.06,", "sgd"]),
        ({"learning_rate": 0.07}, None),
        ({"learning_rate": 0.025, "optimizer": "sgd"}, None),
        ({}, None),
    ],
)
def test_a_rate_far_from_the_default_is_warned_of(options, quoted):
    log = io.StringIO()
    config = configure("ns", options)
    warn_of_rate(config, Reporter(log))
    warnings = lines_with(log.getvalue(), "warning: ", "far from")
    assert len(warnings) == bool(quoted)
    assert not quoted or lines_with(warnings, *quoted)


def test_a_fitted_estimator_can_be_pickled(fitted):
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.model.vectors, fitted.model.vectors)
    assert again.outcome.final_loss == fitted.outcome.final_loss


def test_an_unknown_setting_is_reported_with_those_that_exist():
    with pytest.raises(TypeError, match=r"\bdmi\b.*\bdim\?"):
        embedx.SkipGram(dmi=5)


def test_initial_vectors_never_repeat():
    """word2vec.c's generator repeats rows every 512 words at dimension 128."""
    words = [[f"w{k}" for k in range(70_000)]]
    config = configure("ns", {"dim": 16, "min_count": 1, "threads": 1})
    with encode(words, config.text, Silent(), None) as corpus:
        run = WordVectorsRun.resolved(corpus, config, Silent())
        run.allocate()
        run.initialise()
    rows = run.tables.inputs.rows[:, :16]
    assert len(np.unique(rows, axis=0)) == 70_000
    assert 0.49 / 16 < np.abs(rows).max() <= 0.5 / 16


def test_the_curve_of_the_loss_is_kept_with_the_model(fitted):
    curve = fitted.model.facts["loss_curve"]
    assert 1 < len(curve) <= 20
    assert curve[-1]["loss"] == fitted.model.facts["final_loss"] < curve[0]["loss"]
    for name in ("epoch", "seconds"):
        assert [entry[name] for entry in curve] == sorted(entry[name] for entry in curve)


def test_progress_on_a_log_is_lines_and_json(two_topics, tmp_path):
    stream = io.StringIO()
    config = configure("ns", {"dim": 50, "epochs": 200, "threads": 1})
    with Reporter(stream, tmp_path / "log") as reporter:
        reporter.interval = 0.05
        word_training.train([str(two_topics)], config, progress=reporter)
    lines = [line for line in stream.getvalue().splitlines() if line.startswith("epoch ")]
    assert len(lines) > 2
    assert all(
        re.fullmatch(r"epoch \d+/200: \d+%, \d+:\d\d left, \S+ words/s, loss \S+, lr \S+", line)
        for line in lines
    )
    assert "\r" not in stream.getvalue()
    events = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    training = [event for event in events if event["stage"] == "training"]
    assert training[-1]["done"] == training[-1]["total"]
    rates = [event["learning_rate"] for event in training]
    assert rates == sorted(rates, reverse=True)


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("sentences", "fit"),
        ("min_alpha", "falls to 0"),
        ("max_n", "subwords"),
        ("callbacks", "fit"),
    ],
)
def test_parameters_of_gensim_without_an_equal_come_with_what_to_do(name, instead):
    message = f"SkipGram takes no {name}; .*{instead}"
    with pytest.raises(TypeError, match=message):
        embedx.SkipGram(**{name: 1})
    with pytest.raises(TypeError, match=message):
        embedx.SkipGram().set_params(**{name: 1})
