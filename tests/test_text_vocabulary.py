"""The vocabulary: which words are kept, in which order, and the list of them."""

from types import SimpleNamespace

import numpy as np
import pytest

from embedx.text import word_list
from embedx.text.settings import VocabularySettings
from embedx.text.vocabulary import keep_probability, kept_counts, select
from embedx.text.word_list import WordList
from tests.support.refusals import refused

CORPUS = SimpleNamespace(
    words=WordList.of(["rare", "b", "a", "often", "c"]), counts=np.array([1, 5, 5, 40, 3])
)


def test_words_come_by_count_and_equal_counts_by_first_appearance():
    vocabulary, remap = select(CORPUS, VocabularySettings(min_count=3))
    assert vocabulary.words == ["often", "b", "a", "c"]
    assert vocabulary.counts.tolist() == [40, 5, 5, 3]
    assert vocabulary.n_tokens == 53
    assert remap.tolist() == [-1, 1, 2, 0, 3]
    assert remap.dtype == np.int32


def test_the_order_of_many_equal_counts_is_kept():
    counts = np.random.default_rng(2).integers(1, 5, 2000)
    _, remap = select(
        SimpleNamespace(words=WordList.of(map(str, range(2000))), counts=counts),
        VocabularySettings(min_count=1),
    )
    assert np.argsort(remap).tolist() == sorted(range(2000), key=lambda n: -counts[n])


def test_at_most_max_vocab_words_are_kept():
    vocabulary, remap = select(CORPUS, VocabularySettings(min_count=1, max_vocab=2))
    assert vocabulary.words == ["often", "b"]
    assert remap.tolist() == [-1, 1, -1, 0, -1]


def test_no_word_often_enough_is_an_error_that_reports_the_largest_count():
    with refused("min_count", value=41) as caught:
        select(CORPUS, VocabularySettings(min_count=41))
    assert "count is 40" in caught.value.problem


def test_keep_probability_is_word2vecs():
    counts = np.array([900, 90, 10])
    keep = keep_probability(counts, 0.01)
    # word2vec.c: (sqrt(count / (sample * total)) + 1) * (sample * total) / count, total = 1000
    assert keep == pytest.approx([(np.sqrt(90) + 1) / 90, (np.sqrt(9) + 1) / 9, 1.0])
    assert keep.dtype == np.float32
    assert keep_probability(counts, 0).tolist() == [1, 1, 1]


def test_kept_counts_are_expected_counts_and_never_zero():
    counts = np.array([900, 90, 10])
    kept = kept_counts(counts, 0.01)
    assert kept.tolist() == [105, 40, 10]  # 900 · 0.1165, 90 · 0.4444
    assert kept.dtype == np.int64
    assert kept_counts(counts, 0).tolist() == [900, 90, 10]
    assert kept_counts(np.array([10**6, 1]), 1e-12).tolist() == [1, 1]


WORDS = ["the", "", "café", "日本語", "the end", "e", "\udc80", "x" * 300]


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch):
    monkeypatch.setattr(word_list, "WORDS_PER_STEP", 3)


def test_a_vocabulary_is_a_sequence_of_words():
    words = WordList.of(WORDS)
    assert len(words) == len(WORDS)
    assert list(words) == WORDS
    assert [words[k] for k in range(-len(WORDS), len(WORDS))] == WORDS * 2
    assert words[2:-1:2] == WORDS[2:-1:2]
    assert words.at(np.array([3, 0, 3])) == ["日本語", "the", "日本語"]
    assert "e" in words
    assert "E" not in words
    for place in (len(WORDS), -len(WORDS) - 1):
        with pytest.raises(IndexError, match="range"):
            words[place]


def test_a_byte_order_mark_belongs_to_no_word_of_a_list(tmp_path):
    file = tmp_path / "words.txt"
    file.write_bytes(b"\xef\xbb\xbfoften\na\n")
    vocabulary, _ = select(CORPUS, VocabularySettings(vocab=str(file)))
    assert vocabulary.words == ["often", "a"]


def test_a_vocabulary_of_a_list(write):
    class Corpus:
        words = WordList.of(["rare", "b", "a", "often"])
        counts = np.array([1, 5, 5, 40])

    vocabulary, remap = select(Corpus, VocabularySettings(vocab=write("rare\t3\n\na 5 x\nnone\n")))
    assert vocabulary.words == ["a", "rare"]
    assert vocabulary.counts.tolist() == [5, 1]
    assert remap.tolist() == [1, -1, 0, -1]
    for text in ("none\n", "\n", b"\xff"):
        file = write(text)
        with refused("vocab", value=file):
            select(Corpus, VocabularySettings(vocab=file))
