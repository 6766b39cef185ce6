"""Word vectors of a text of which a part is held out, and which part that is."""

import itertools

import numpy as np
import pytest

import embedx
from embedx.errors import Setting, parts_of
from embedx.evaluation import held_out
from embedx.skipgram.configuration import configure
from embedx.text import held_out as held_out_text
from embedx.text.held_out import PIECE, hold_out
from embedx.training import trainer
from embedx.vectors.probabilities import trained_on
from tests.support import word_training
from tests.support.clock import Clock
from tests.support.notes import Notes
from tests.support.refusals import refused
from tests.support.topic_vectors import assert_knows_the_topics, fit


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
    assert dropped <= (held_out_text.MAX_DROPPED + 0.3 * share) * len(tokens)


def test_spans_depend_on_the_length_of_the_text_and_the_share_alone():
    remap = np.arange(9, dtype=np.int32)
    n = 199 * PIECE + 5
    held_out = hold_out(some_tokens(200 * PIECE, seed=0)[:n], remap, 0.1)
    of_other_words = hold_out(some_tokens(200 * PIECE, seed=1)[:n], remap, 0.1)
    assert held_out.pieces.tolist() == of_other_words.pieces.tolist()
    # Sentences end at the same places in both.
    assert held_out.bounds.tolist() == of_other_words.bounds.tolist()
    distances = np.diff([start for start, _ in held_out.bounds.tolist()])
    # At random places, which no rhythm of the text can meet.
    assert len(set(distances.tolist())) > 3


def test_the_words_of_the_spans_are_held_out_in_text_order():
    tokens = some_tokens(50 * PIECE - 300)
    remap = np.array([4, -1, 0, 1, 2, 3, -1, 5, 6], dtype=np.int32)
    held_out = hold_out(tokens, remap, 0.4)
    words = []
    places = []
    unseen = np.zeros(7, int)
    sentence = 0
    span = {}
    for k, (start, stop) in enumerate(held_out.bounds.tolist()):
        span |= dict.fromkeys(range(start, stop), k)
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
    changes = [before != after for before, after in itertools.pairwise(places)]
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
    settings = [part for part in parts_of(refusal.value.remedy) if isinstance(part, Setting)]
    (share,) = [setting.value for setting in settings if setting.name == "heldout"]
    assert len(hold_out(tokens, remap, share).bounds) >= 2


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
    pairs, calibration = held_out.pairs_of([["emu", "cat"] * 50], model)
    likelihood = held_out.evaluate(model, pairs, calibration)
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
