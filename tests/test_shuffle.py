"""--shuffle: each epoch trains every chunk of the corpus once, in an order of its own."""

import numpy as np
import pytest

from embedx.skipgram import strategies
from embedx.training.schedule import orders
from tests.support.resumed_runs import same, word_run


@pytest.fixture
def places(monkeypatch):
    """Begin and end of each chunk in the order of training; several over
    little data.
    """
    monkeypatch.setattr(strategies, "TOKENS_PER_CHUNK", 150)
    seen = []
    original = strategies.BlockTraining.chunk_at

    def chunk(self, epoch, number, rate):
        trained = original(self, epoch, number, rate)
        if rate > 0:  # else to know the loss before
            seen.append((epoch, *trained[:2]))
        return trained

    monkeypatch.setattr(strategies.BlockTraining, "chunk_at", chunk)
    return seen


def by_epoch(places):
    return [[place[1:] for place in places if place[0] == epoch] for epoch in range(3)]


def test_an_epoch_has_every_chunk_once_in_an_order_of_its_own(places):
    word_run("ns", epochs=3)
    epochs = by_epoch(places)
    in_order = sorted(epochs[0])
    assert len(in_order) > 5
    assert [stop for _, stop in in_order[:-1]] == [start for start, _ in in_order[1:]]
    assert in_order[0][0] == 0
    assert all(sorted(epoch) == in_order for epoch in epochs)
    assert len({tuple(epoch) for epoch in [*epochs, in_order]}) == 4


def test_the_order_depends_on_the_seed(places):
    runs = []
    for seed in (1, 1, 2):
        places.clear()
        word_run("ns", epochs=1, seed=seed)
        runs.append(list(places))
    assert runs[0] == runs[1] != runs[2]


def test_without_shuffling_the_corpus_is_read_in_its_order(places):
    word_run("ns", epochs=3, shuffle=False)
    epochs = by_epoch(places)
    assert epochs[0] == epochs[1] == epochs[2] == sorted(epochs[0])


def test_a_chunk_is_trained_with_the_same_random_numbers_wherever_it_comes(monkeypatch):
    """With a single chunk there is nothing to shuffle."""
    same(word_run("ns", epochs=2)[0], word_run("ns", epochs=2, shuffle=False)[0])


def test_orders_of_two_epochs_may_be_requested_alternately():
    order_of = orders(50, 7)
    first = order_of(0).copy()
    second = order_of(1).copy()
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(order_of(0), first)
    np.testing.assert_array_equal(order_of(1), second)
    assert sorted(first) == list(range(50))
