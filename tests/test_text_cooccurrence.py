"""The counts of pairs are those of the pairs that streaming trains on, however little memory there
is to count them.
"""

import itertools
from collections import Counter

import numpy as np
import pytest
import reference

from embedx.kernels.random import stream_key
from embedx.text import cooccurrence, counting
from embedx.text.held_out import PIECE, n_pieces
from embedx.text.subsampling import WHOLE_SENTENCE, TokenStream, context_words
from tests.support.refusals import refused, refused_data

N_WORDS = 9
WINDOW = 4
KEYS = [stream_key(1, epoch) for epoch in range(3)]


@pytest.fixture(scope="module")
def stream():
    """Some 40 sentences over 9 words and 2 that are left out, four of them subsampled, the second
    of three chunks held out.
    """
    rng = np.random.default_rng(0)
    tokens = rng.choice(N_WORDS + 2, 3 * PIECE - 100, p=np.arange(N_WORDS + 2, 0, -1) / 66).astype(
        np.int32
    )
    tokens[rng.choice(len(tokens), 40)] = -1
    tokens.setflags(write=False)
    word = np.array([-1, 3, 1, 0, 2, -1, 8, 7, 6, 5, 4], dtype=np.int32)
    keep = np.full(N_WORDS + 2, 2**32 - 1, dtype=np.uint32)
    keep[1:5] = 2**31
    held_out = np.zeros(n_pieces(tokens), dtype=np.uint8)
    held_out[1] = 1
    return TokenStream(tokens, word, keep, held_out)


def naive(stream, keys):
    """Pairs by (input, target), one after the other."""
    held_out = np.repeat(stream.held_out, PIECE)
    n_tokens = len(stream.tokens)
    kept = [
        reference.kept_words(stream.tokens, stream.word, stream.keep, WINDOW, key, held_out)
        for key in keys
    ]
    return Counter((x, y) for words in kept for x, y, *_ in reference.pairs_of(words, 0, n_tokens))


def counted(stream, keys, folder, memory=1e6):
    """What `counted` says, copied out of its files."""
    with cooccurrence.counted(
        stream, N_WORDS, WINDOW, keys, int(memory), cache_dir=folder
    ) as counts:
        return cooccurrence.Counts(*(np.array(array) for array in counts))


def as_counter(counts):
    inputs = np.repeat(np.arange(N_WORDS), np.diff(counts.offsets))
    return Counter(
        dict(
            zip(
                zip(inputs.tolist(), counts.targets.tolist(), strict=True),
                counts.times.tolist(),
                strict=True,
            )
        )
    )


@pytest.mark.parametrize("keys", [KEYS[:1], KEYS])
def test_every_pair_of_each_epoch_is_counted(stream, tmp_path, keys):
    counts = counted(stream, keys, tmp_path)
    assert as_counter(counts) == naive(stream, keys)
    assert as_counter(counts)[8, 8] > 0  # words do stand beside themselves
    assert [array.dtype for array in counts] == [np.int64, np.int32, np.float32]
    for first, last in itertools.pairwise(counts.offsets):
        assert (np.diff(counts.targets[first:last]) > 0).all()


def test_the_widest_window_is_not_drawn_and_takes_whole_sentences(stream, tmp_path):
    kept = reference.kept_words(
        stream.tokens, stream.word, stream.keep, 1, KEYS[0], np.repeat(stream.held_out, PIECE)
    )
    expected = Counter()
    for _, same in itertools.groupby(kept, key=lambda kept_pair: kept_pair[2]):
        words = Counter(pair[1] for pair in same)
        for x, y in itertools.product(words, words):
            expected[x, y] += words[x] * (words[y] - (x == y))
    with cooccurrence.counted(
        stream, N_WORDS, WHOLE_SENTENCE, KEYS[:1], 10**7, cache_dir=tmp_path
    ) as counts:
        assert as_counter(counts) == +expected


def test_context_words_are_as_many_as_sentences_have():
    tokens = np.array([0, 1, 2, -1, 0, -1, 0, 1], np.int32)
    assert context_words(tokens, 5) == 6
    assert context_words(tokens, WHOLE_SENTENCE) == (3 * 2 + 1 * 0 + 2 * 1) / 6
    assert context_words(np.zeros(5000, np.int32), WHOLE_SENTENCE) == 2 * WHOLE_SENTENCE
    assert context_words(tokens[:0], WHOLE_SENTENCE) == 0


@pytest.mark.parametrize("pairs", [1, 1000])
def test_counts_do_not_depend_on_the_memory(stream, tmp_path, monkeypatch, pairs):
    plenty = counted(stream, KEYS, tmp_path)
    monkeypatch.setattr(counting, "MIN_ENTRIES_PER_RANGE", 7)
    scarce = counted(stream, KEYS, tmp_path, pairs * counting.BYTES_PER_KEY)
    for a, b in zip(plenty, scarce, strict=True):
        np.testing.assert_array_equal(a, b)


def test_totals_of_inputs_and_targets(stream, tmp_path):
    of_inputs, of_targets = cooccurrence.totals(counted(stream, KEYS, tmp_path))
    pairs = naive(stream, KEYS)
    assert of_inputs.tolist() == [
        sum(n for (x, _), n in pairs.items() if x == k) for k in range(N_WORDS)
    ]
    assert of_targets.tolist() == [
        sum(n for (_, y), n in pairs.items() if y == k) for k in range(N_WORDS)
    ]


def files_in(folder):
    return [path.name for path in folder.rglob("*") if path.name != "lock"]


def test_files_last_as_long_as_the_counts(stream, tmp_path):
    with cooccurrence.counted(stream, N_WORDS, WINDOW, KEYS, 1000, cache_dir=tmp_path):
        assert {"targets", "times"} <= set(files_in(tmp_path))
        assert not any("counted" in name for name in files_in(tmp_path))
    assert files_in(tmp_path) == []


def test_text_without_pairs_cannot_be_counted(stream, tmp_path):
    lonely = stream._replace(tokens=np.array([1, -1, 2, -1, 3], dtype=np.int32))
    lonely.tokens.setflags(write=False)  # as those of a corpus: one type, one compilation
    with refused("sample"):
        counted(lonely, KEYS, tmp_path)
    (tmp_path / "file").write_text("")
    with refused_data("file", "cache_dir"):
        counted(stream, KEYS, tmp_path / "file")
