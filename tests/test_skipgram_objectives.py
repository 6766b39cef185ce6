"""Word vectors by every objective, with biases, by every optimiser, and with a part of the text
held out.
"""

import dataclasses

import numpy as np
import pytest

import embedx
from embedx.errors import DataError, DivergedError, Setting, SettingError, parts_of
from embedx.evaluation import heldout
from embedx.kernels.batch import new_batch
from embedx.objectives import OBJECTIVES
from embedx.optimizers import OPTIMIZERS, taken_by
from embedx.optimizers.contract import WORDS
from embedx.skipgram.configuration import configure
from embedx.skipgram.sampler_choice import samplers_for_words
from embedx.skipgram.settings import SkipGramSettings
from embedx.skipgram.strategies import empty_tables
from embedx.testing.objectives import coefficients_of, variants
from embedx.text import heldout as text_heldout
from embedx.text.heldout import PIECE, hold_out
from embedx.training import trainer
from embedx.vectors.probabilities import trained_on
from tests.support import word_training
from tests.support.clock import Clock
from tests.support.notes import Notes
from tests.support.refusals import refused
from tests.support.topic_vectors import assert_knows_the_topics, fit

EVERY_WAY = [
    (name, sampler)
    for name, objective in OBJECTIVES.items()
    for sampler in samplers_for_words(objective)
]
# Those whose probabilities are no softmax of the scores and no turns of a tree: their initial
# biases are of the right order.
OTHER_LINKS = ("ova",)
VARIANTS = {
    name: variant for kind in OBJECTIVES.values() for name, variant in variants(kind).items()
}


@pytest.mark.parametrize(("objective", "sampler"), EVERY_WAY)
@pytest.mark.slow
def test_every_objective_learns_the_topics_with_every_sampler(two_topics, objective, sampler):
    fitted = fit(two_topics, objective, sampler=sampler, epochs=3)
    assert_knows_the_topics(fitted.model)
    assert fitted.model.settings["sampler"] == sampler
    assert fitted.outcome.tally.items == 3 * fitted.model.counts.sum()


@pytest.mark.parametrize(
    ("objective", "options"),
    [
        ("ns", {"bias": "zero"}),
        ("hs", {"bias": "zero"}),
        ("ar", {"bias": "none"}),
        ("hs", {"bias": "none"}),
        ("ar", {"optimizer": "sgd", "learning_rate": 0.01}),
        ("ns", {"block_size": 0}),
        ("hs", {"block_size": 0}),
    ],
)
def test_every_way_of_training_learns_the_topics(two_topics, objective, options):
    fitted = fit(two_topics, objective, **options)
    model = fitted.model
    assert_knows_the_topics(model)
    assert model.vectors.shape == (len(model), 16)
    assert model.arrays["bias"].shape == (len(model.output_vectors),)


COLLAPSED = [
    "softmax",
    *(name for name, objective in OBJECTIVES.items() if "search" in objective.samplers()),
]


def fit_collapsed(corpus, objective, **options):
    few = {"dim": 4, "threads": 1, "min_count": 1, "sample": 0}
    return word_training.train(corpus, configure(objective, few | options, is_collapsed=True))


@pytest.mark.parametrize("objective", ["ns", "hs", "softmax", "ldgs"])
def test_text_without_pairs_is_a_mistake_reported_before_training(objective):
    for train in (fit, fit_collapsed) if objective in COLLAPSED else (fit,):
        with refused(None, "min_count", kind=DataError):
            train([["a"], ["b"]] * 9, objective)
        with refused(None, "min_count", kind=DataError):
            train([["a", "rare"], ["b"]] * 2, objective, min_count=2, max_vocab=1)


@pytest.mark.parametrize(
    ("options", "setting"),
    [({"sample": 1e-15}, "sample"), ({"time_budget": 1e-9}, "time_budget")],
    ids=["sample", "time"],
)
@pytest.mark.parametrize("train", [fit, fit_collapsed])
def test_a_run_without_training_pairs_is_refused(train, options, setting):
    if train is fit_collapsed:
        options = options | {"warm_start": "none"}
    objective = "ns" if train is fit else "softmax"
    with refused(setting):
        train([["a", "b", "c"]] * 9, objective, **options)


# ---- defaults


@pytest.mark.parametrize("name", OBJECTIVES)
def test_an_objectives_own_defaults_are_settings(name):
    objective = OBJECTIVES[name]
    known = {
        field.name
        for group in (SkipGramSettings, objective.Settings)
        for field in dataclasses.fields(group)
    }
    assert objective.word_defaults.keys() <= known
    settings = configure(name, {}).record()
    assert settings == settings | objective.word_defaults
    typed = {"block_size": 3, "dim": 7}  # before them
    assert configure(name, typed).record().items() >= typed.items()


def test_a_rate_that_suits_one_optimizer_is_not_used_with_another(two_topics):
    assert (
        fit(two_topics, "hs", epochs=1).model.settings["learning_rate"]
        == OBJECTIVES["hs"].word_defaults["learning_rate"]
    )
    sgd = OPTIMIZERS["sgd"].rates[WORDS]
    assert fit(two_topics, "hs", epochs=1, optimizer="sgd").model.settings["learning_rate"] == sgd
    assert (
        fit(two_topics, "hs", epochs=1, optimizer="sgd", learning_rate=0.1).model.settings[
            "learning_rate"
        ]
        == 0.1
    )


@pytest.mark.parametrize(
    ("objective", "first"), [("softmax", 1.0), ("ns", 0.0)], ids=["all rows", "drawn rows"]
)
def test_rows_that_every_block_updates_get_an_initial_accumulator(objective, first):
    config = configure(objective, {"optimizer": "rowwise-adagrad", "dim": 3})
    tables = empty_tables(config.objective, config.settings, config.new_sampler(), 4)
    assert (tables.outputs.state == first).all()
    assert (tables.inputs.state == 0).all()


@pytest.mark.slow
def test_the_exact_softmax_beats_the_frequencies_in_two_epochs_of_a_small_text():
    """The gain is at least .065 nats for seeds 1 to 4; after one epoch two of them have none."""
    options = {"epochs": 2, "dim": 12, "max_vocab": 2000, "heldout": 0.05, "threads": 1}
    fitted = embedx.SkipGram(objective="softmax", **options).fit("wikipedia-sample")
    measured = fitted.model.facts["heldout"]
    assert measured["log_likelihood"] > measured["unigram"] + 0.03


@pytest.mark.parametrize("optimizer", taken_by(WORDS))
def test_every_optimizer_learns_the_topics_at_its_own_rate(two_topics, optimizer):
    fitted = fit(two_topics, "ns", optimizer=optimizer, epochs=10)
    assert_knows_the_topics(fitted.model)
    assert fitted.outcome.final_loss < fitted.outcome.curve[0]["loss"]


@pytest.mark.parametrize("options", [{}, {"learning_rate": 0.1}])
@pytest.mark.parametrize("optimizer", sorted(OPTIMIZERS.keys() - set(taken_by(WORDS))))
def test_an_optimizer_for_full_gradients_is_refused(two_topics, optimizer, options):
    with refused("optimizer", value=optimizer):
        fit(two_topics, "ns", optimizer=optimizer, **options)


@pytest.mark.parametrize("optimizer", ["adagrad", "mixture"])
def test_implicit_refuses_optimizers_with_rates_for_each_coordinate(optimizer):
    with pytest.raises(SettingError) as caught:
        configure("implicit", {"optimizer": optimizer})
    assert (caught.value.setting, caught.value.value) == ("optimizer", optimizer)
    assert "bounded-adagrad" in caught.value.remedy
    configure("implicit", {"optimizer": "bounded-adagrad"})


@pytest.mark.parametrize("multiple", [10, 100])
def test_implicit_steps_do_not_diverge_at_many_times_their_rate(multiple):
    options = {"epochs": 2, "dim": 12, "max_vocab": 2000, "heldout": 0.05, "threads": 1}
    own_rate = OBJECTIVES["implicit"].word_defaults["learning_rate"]
    model = embedx.SkipGram(objective="implicit", learning_rate=multiple * own_rate, **options)
    fitted = model.fit("wikipedia-sample")
    assert "learning_rate_lowered" not in fitted.model.facts
    measured = fitted.model.facts["heldout"]
    assert measured["log_likelihood"] > measured["unigram"] + 0.1


@pytest.mark.parametrize(
    "name", [name for name, objective in OBJECTIVES.items() if objective.traits.stable]
)
def test_stable_objectives_stay_so_at_their_defaults_in_many_dimensions(two_topics, name):
    fitted = fit(two_topics, name, dim=300, epochs=3)
    assert fitted.outcome.final_loss < fitted.outcome.curve[0]["loss"]
    assert np.abs(fitted.model.vectors).max() < 10


def test_a_finite_but_huge_loss_counts_as_diverged(two_topics):
    """The double sum holds its exponents at 60, so that its loss stays finite wherever it goes."""
    with refused(None, "learning_rate", kind=DivergedError):
        fit(two_topics, "sgd-double-sum", optimizer="sgd", learning_rate=3e7)
    fitted = fit(two_topics, "sgd-double-sum", optimizer="sgd", learning_rate=30.0)
    assert fitted.model.facts["learning_rate_lowered"]
    assert fitted.outcome.highest_loss < 100


# ---- before the first step


@pytest.mark.parametrize("sampler", ["unigram", "uniform", "all"])
def test_negatives_have_the_same_total_weight_drawn_or_all(two_topics, sampler):
    """At vectors of zero the loss of a pair is (1 + negatives) log 2, however the expectation over
    the noise is taken.
    """
    fitted = fit(two_topics, "ns", sampler=sampler, negatives=3, epochs=1, learning_rate=1e-6)
    assert fitted.outcome.final_loss == pytest.approx(4 * np.log(2), rel=1e-3)


@pytest.mark.parametrize("name", VARIANTS)
def test_initial_biases_predict_the_given_probabilities(name):
    """With vectors of zero every input's scores are the biases, at any setting of an objective."""
    objective = VARIANTS[name]
    p, noise = (np.random.default_rng(seed).dirichlet(np.ones(23)) for seed in (1, 2))
    objective.prepare(np.rint(1e6 * p).astype(np.int64))
    bias = objective.initial_bias(p, noise)
    assert bias.shape == (objective.n_outputs(23),)
    predicted = objective.log_probability(bias[None], np.log(noise))[0]
    if objective.name in OTHER_LINKS:
        assert (np.argsort(predicted) == np.argsort(p)).all()
    else:
        np.testing.assert_allclose(predicted, np.log(p), atol=1e-6)


@pytest.mark.parametrize("n_negatives", [1, 7])
def test_initial_biases_of_negative_sampling_are_where_its_expected_gradient_is_zero(n_negatives):
    kind = OBJECTIVES["ns"]
    objective = kind(kind.Settings(negatives=n_negatives))
    p, noise = (np.random.default_rng(seed).dirichlet(np.ones(9)) for seed in (1, 2))
    batch = new_batch(1, 9, 0, np.float64)
    batch.z[0] = objective.initial_bias(p, noise)
    batch.label[0] = p
    batch.sample_count[0] = 20 * noise
    constants = objective.constants(20, 9).astype(np.float64)
    coefficients_of(objective)(batch, np.zeros((1, 0)), constants, 1, 9, 0.0)
    np.testing.assert_allclose(batch.z[0], 0, atol=1e-6)


@pytest.mark.parametrize("name", [name for name in OBJECTIVES if name not in OTHER_LINKS])
def test_training_with_biases_by_frequency_starts_at_the_unigram_model(two_topics, name):
    fitted = fit(two_topics, name, bias="frequency", learning_rate=1e-6, epochs=1, heldout=0.2)
    likelihoods = fitted.model.facts["heldout"]
    assert likelihoods["log_likelihood"] == pytest.approx(likelihoods["unigram"], abs=1e-3)
    assert likelihoods["unigram"] > -np.log(len(fitted.model)) + 0.01  # which is no uniform one


# ---- held out


def some_tokens(n, n_types=9, seed=0):
    tokens = np.random.default_rng(seed).integers(0, n_types, n).astype(np.int32)
    tokens[::31] = -1
    return tokens


def positions(held_out):
    """The positions of the tokens that are scored."""
    return np.concatenate([np.arange(start, stop) for start, stop in held_out.bounds.tolist()])


@pytest.mark.parametrize(
    ("n", "share", "n_spans", "border"),
    [
        (20_000, 0.005, 40, 4000),
        (2000, 0.02, 20, 2000),
        (2000, 0.5, 25, 2000),
        (464, 0.01, 5, 2000),
        (464, 0.05, 8, 1000),
        (40, 0.2, 8, 100),
        (4, 0.5, 2, 100),
        (7, 0.3, 2, 100),
    ],
)
def test_spans_are_held_out_with_a_border_that_is_not_used(n, share, n_spans, border):
    tokens = some_tokens(n * PIECE - 7)
    held_out = hold_out(tokens, np.arange(9, dtype=np.int32), share)
    scored = positions(held_out)
    unseen = np.repeat(held_out.pieces, PIECE)[: len(tokens)] > 0
    assert unseen[scored].all()
    assert len(scored) <= round(share * n) * PIECE
    assert len(scored) >= 0.7 * round(share * n) * PIECE
    seen = np.flatnonzero(~unseen)
    after = np.searchsorted(seen, scored)
    gap = np.minimum(
        np.where(after < len(seen), seen[np.minimum(after, len(seen) - 1)] - scored, len(tokens)),
        np.where(after > 0, scored - seen[after - 1], len(tokens)),
    )
    assert gap.min() > border
    assert len(held_out.bounds) == n_spans
    dropped = unseen.sum() - len(scored)
    assert dropped <= (text_heldout.MAX_DROPPED + 0.3 * share) * len(tokens)


def test_spans_depend_on_the_length_of_the_text_and_the_share_alone():
    remap = np.arange(9, dtype=np.int32)
    one, other = (
        hold_out(some_tokens(200 * PIECE, seed=seed)[: 199 * PIECE + 5], remap, 0.1)
        for seed in (0, 1)
    )
    assert one.pieces.tolist() == other.pieces.tolist()
    assert one.bounds.tolist() == other.bounds.tolist()  # sentences end at the same places in both
    chunks = np.diff([start for start, _ in one.bounds.tolist()])
    assert len(set(chunks.tolist())) > 3  # at random places, which no rhythm of the text can meet


def test_the_words_of_the_spans_are_held_out_in_text_order():
    tokens = some_tokens(50 * PIECE - 300)
    remap = np.array([4, -1, 0, 1, 2, 3, -1, 5, 6], dtype=np.int32)
    held_out = hold_out(tokens, remap, 0.4)
    words = []
    places = []
    unseen = np.zeros(7, int)
    sentence = 0
    span = {
        position: k
        for k, (start, stop) in enumerate(held_out.bounds.tolist())
        for position in range(start, stop)
    }
    for position, token in enumerate(tokens.tolist()):
        if held_out.pieces[position // PIECE] and token >= 0 and remap[token] >= 0:
            unseen[remap[token]] += 1  # of borders too
        if token == -1:
            sentence += 1
        elif position in span:
            words.append(remap[token])
            places.append((span[position], sentence))
    assert held_out.words.tolist() == words
    assert held_out.counts.tolist() == unseen.tolist()
    assert hold_out(tokens, np.minimum(remap, 0), 0.4).counts.tolist() == [unseen.sum()]
    assert unseen.sum() > held_out.n_words == sum(word >= 0 for word in words)
    assert held_out.spans.tolist() == [place[0] for place in places]
    changes = [one != other for one, other in zip(places[1:], places[:-1], strict=True)]
    # a window ends where the sentence does, and where the span does
    assert (np.diff(held_out.sentences) > 0).tolist() == changes


def test_a_span_holds_whole_sentences():
    tokens = some_tokens(500 * PIECE)
    remap = np.arange(9, dtype=np.int32)
    for start, stop in hold_out(tokens, remap, 0.1).bounds.tolist():
        assert tokens[start - 1] == tokens[stop] == -1
    without = np.where(tokens == -1, 0, tokens)  # one endless sentence
    for start, stop in hold_out(without, remap, 0.1).bounds.tolist():
        assert start % PIECE == stop % PIECE == 0


def test_a_text_too_short_to_hold_anything_out_is_refused(two_topics):
    with refused("heldout", value=0.001, quoting="1,000 words"):
        fit(two_topics, "ns", heldout=0.001)


@pytest.mark.parametrize("n", [*range(4, 9), 33, 66, 80, 134, 199])
def test_the_share_that_a_refusal_names_can_be_held_out(n):
    tokens = some_tokens(n * PIECE)
    remap = np.arange(9, dtype=np.int32)
    with refused("heldout", "heldout", value=0.001) as refusal:
        hold_out(tokens, remap, 0.001)
    (named,) = (
        part.value
        for part in parts_of(refusal.value.remedy)
        if isinstance(part, Setting) and part.name == "heldout"
    )
    assert len(hold_out(tokens, remap, named).bounds) >= 2


def test_no_share_of_a_text_of_two_pieces_is_named():
    with refused("heldout", value=0.5) as refusal:
        hold_out(some_tokens(2 * PIECE), np.arange(9, dtype=np.int32), 0.5)
    assert isinstance(refusal.value.remedy, str)


def test_words_that_are_held_out_are_not_trained_on(two_topics):
    """Each word of the spans and borders is left out of every epoch, and of the share done that the
    learning rate follows.
    """
    fitted = fit(two_topics, "ns", heldout=0.3, epochs=2)
    complete = fit(two_topics, "ns", epochs=2)
    part = 1 - fitted.outcome.tally.items / complete.outcome.tally.items
    assert 0.1 < part < 0.5
    assert fitted.outcome.tally.pairs / complete.outcome.tally.pairs == pytest.approx(
        1 - part, abs=0.01
    )
    assert fitted.outcome.epochs == pytest.approx(2)
    # the vocabulary is that of the whole text
    assert fitted.model.counts.tolist() == complete.model.counts.tolist()
    assert (
        fitted.outcome.tally.items
        == 2 * (fitted.model.counts - fitted.model.arrays["heldout_counts"]).sum()
    )
    assert_knows_the_topics(fitted.model)


@pytest.mark.parametrize("name", ["ns", "hs", "softmax"])
def test_held_out_text_is_not_counted(tmp_path, name):
    """The one text that knows `emu` is held out: no bias, no noise, no tree and no unigram model
    knows how often it occurs.
    """
    n = 40 * PIECE
    tokens = np.array(["cat", "dog", "and"])[np.random.default_rng(0).integers(0, 3, n)]
    start, stop = hold_out(np.zeros(n, np.int32), np.zeros(1, np.int32), 0.1).bounds[0]
    tokens[start:stop:2] = "emu"
    (tmp_path / "text").write_text(" ".join(tokens))
    options = {"heldout": 0.1, "epochs": 1, "sample": 0.0, "learning_rate": 1e-6, "min_count": 1}
    fitted = fit(tmp_path / "text", name, **options)
    model = embedx.load(fitted.save(tmp_path / "model"))
    assert model.counts[model.words.index("emu")] == -(-(stop - start) // 2)
    counts = trained_on(model)
    assert counts[model.words.index("emu")] == 1  # in the vocabulary, so that it may occur
    assert counts.sum() == fitted.outcome.tally.items + 1
    pairs, calibration = heldout.pairs_of([["emu", "cat"] * 50], model)
    likelihood = heldout.evaluate(model, pairs, calibration)
    assert likelihood.unigram == pytest.approx(np.log(counts[pairs.targets] / counts.sum()).mean())
    if name != "ns":  # which begins without biases
        assert likelihood.log_likelihood < -4


def test_the_same_text_is_held_out_whatever_the_seed_and_the_threads(two_topics):
    likelihoods = [
        fit(two_topics, "ns", epochs=1, heldout=0.2, **more).model.facts["heldout"]
        for more in ({"seed": 2}, {"threads": 2})
    ]
    assert likelihoods[0]["unigram"] == likelihoods[1]["unigram"]
    assert likelihoods[0]["n_groups"] == likelihoods[1]["n_groups"] == 8  # spans


def test_training_raises_the_likelihood_of_held_out_text(two_topics, tmp_path):
    fitted = fit(two_topics, "softmax", bias="frequency", heldout=0.3)
    likelihoods = fitted.model.facts["heldout"]
    assert likelihoods["log_likelihood"] > likelihoods["unigram"] + 0.1
    assert 1000 < likelihoods["n_pairs"] <= 20_000
    assert embedx.load(fitted.save(tmp_path / "model")).facts["heldout"] == pytest.approx(
        likelihoods
    )


def test_the_held_out_likelihood_is_reported_as_often_as_set(two_topics, monkeypatch):
    monkeypatch.setattr(trainer, "time", Clock(tick=0.01))
    notes = Notes()
    config = configure("ns", {"epochs": 6, "heldout": 0.2, "heldout_points": 3, "threads": 1})
    facts = word_training.train(two_topics, config, progress=notes).model.facts
    lines = [line.split(":")[0] for line in notes.notes if "held-out log-likelihood" in line]
    assert lines == ["epoch 2", "epoch 4"]  # that of the end is in `heldout`
    assert [entry["epoch"] for entry in facts["history"]] == [2, 4]
    assert all(entry["log_likelihood"] > facts["heldout"]["unigram"] for entry in facts["history"])
    seconds = [entry["seconds"] for entry in facts["history"]]
    assert 0 < seconds[0] < seconds[1] < facts["seconds"]
    assert "history" not in fit(two_topics, "ns", epochs=1, heldout=0.2).model.facts
