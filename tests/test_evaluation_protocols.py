"""The presets give the numbers of the programs that they are named after, whatever the block size, and refuse the rest."""

import itertools
import re
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import reference_words
from needs import HAS_NO_GENSIM, WHY_NO_GENSIM

from embedx.errors import EmbedxError
from embedx.evaluation import analogies, words
from embedx.evaluation.protocols import PROTOCOLS, protocol_of
from embedx.run.progress import Silent
from embedx.vectors.model import WordVectors

if HAS_NO_GENSIM:
    pytest.skip(WHY_NO_GENSIM, allow_module_level=True)
from gensim.test.utils import datapath
from test_evaluation_words import as_gensim, some_questions, toy

WORDSIM = Path(datapath("wordsim353.tsv"))


def asked(vectors, tests, protocol, **options):
    return words.score(vectors, protocol_of(protocol).tests(tests, **options), protocol=protocol)


def small_blocks(monkeypatch):
    monkeypatch.setattr(analogies, "BLOCK_FLOATS", 20_000)
    monkeypatch.setattr(analogies, "SCORE_FLOATS", 1_000)


# ---- gensim


@pytest.mark.filterwarnings("ignore:(invalid value|divide by zero)")  # gensim divides by the norm of the zero vector
@pytest.mark.parametrize("seed", range(2))
def test_gensim_with_its_defaults(tmp_path, seed):
    file, vectors = some_questions(tmp_path), toy(seed)
    pearson, spearman, oov_ratio = as_gensim(vectors).evaluate_word_pairs(str(WORDSIM))
    score, sections = as_gensim(vectors).evaluate_word_analogies(str(file))
    pairs, questions = asked(vectors, [words.read_pairs(WORDSIM), words.read_analogies(file)], "gensim")
    details = {"pearson": pearson[0], "pearson_p": pearson[1], "spearman_p": spearman[1], "oov_ratio": oov_ratio}
    assert (pairs.score, pairs.details) == (spearman[0], {name: float(value) for name, value in details.items()})
    assert questions.score == score
    assert questions.test.candidates == 300_000
    assert questions.details["sections"] == {
        part["section"]: {"correct": len(part["correct"]), "used": len(part["correct"] + part["incorrect"])}
        for part in sections[:-1]
    }


# ---- compute-accuracy


def sections_of(test, n=8, per_section=12, seed=0):
    """A file in the layout of Google's, with unknown words, an empty section, variants and a repeated question."""
    rng = np.random.default_rng(seed)
    lines = []
    for k in range(n):
        lines.append(f": section-{k}")
        if k != 3:
            lines += [" ".join(test.words[i]) for i in rng.choice(len(test), per_section, replace=False)]
    return "\n".join([*lines, "boy girl no-such-word girl", "BOY Girl brother sister", "boy girl boy girl", lines[1]]) + "\n"


def toy_with_accents():
    vectors = toy(cased=True, share=0.8)
    table = np.vstack([vectors.vectors, vectors.vectors[:2], vectors.vectors[100:101]])  # 100 is a zero vector
    return WordVectors([*vectors.words, "été", "ÉTÉ", "nothing"], {"input": table})


@pytest.mark.parametrize("threshold", [1_500, 30_000])
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_compute_accuracy_prints_the_same(tmp_path, threshold, ends, monkeypatch):
    small_blocks(monkeypatch)
    vectors = toy_with_accents()
    text = sections_of(words.default_tests()[2]) + "été boy girl boy\nÉTÉ boy girl boy\nnothing boy girl boy\nboy boy boy été\n"
    (tmp_path / "q.txt").write_text(text.replace("\n", ends), newline="")
    [answers] = asked(vectors, [words.read_analogies(tmp_path / "q.txt")], "compute-accuracy", candidates=threshold)
    expected = reference_words.compute_accuracy(vectors.words, vectors.vectors, text, threshold)
    assert answers.details["printed"] == expected
    used, total = map(int, re.search(r"total: (\d+) (\d+)", expected[-1]).groups())
    assert (used, total) == (int(answers.used.sum()), len(answers.values))
    assert 0 < used < total
    if threshold == 30_000:
        assert answers.details["semantic"]["used"] > 0 < answers.details["syntactic"]["correct"]


def test_compute_accuracy_answers_nothing_that_points_away(tmp_path):
    table = np.array([[1, 0], [0, 1], [0, 1.5], [1, -1]], np.float32)  # b - a + c points up, only d, which is asked, with it
    vectors = WordVectors(["a", "b", "c", "d"], {"input": table})
    text = ": s\na b c d\nd a c b\n"
    (tmp_path / "q.txt").write_text(text)
    [answers] = asked(vectors, [words.read_analogies(tmp_path / "q.txt")], "compute-accuracy")
    assert answers.details["printed"] == reference_words.compute_accuracy(vectors.words, vectors.vectors, text)
    assert answers.values.tolist() == [0, 1]


def tied_questions(seed, n=150, scale=1.7):
    """A vocabulary where each vector occurs three times, and questions whose answers are among such."""
    rng = np.random.default_rng(seed)
    table = np.repeat(rng.normal(size=(15, 7)).astype(np.float32), 3, axis=0)
    table[::3] *= np.float32(scale)  # the same direction, other roundings
    names = [f"w{k}" for k in rng.permutation(len(table))]
    shuffled = rng.permutation(len(table))
    vectors = WordVectors(names, {"input": table[shuffled]})
    units = vectors.vectors / np.linalg.norm(vectors.vectors, axis=1, keepdims=True)
    lines = []
    while len(lines) < n:
        a, b, c = rng.integers(len(table), size=3)
        scores = units @ (units[b] - units[a] + units[c])
        scores[[a, b, c]] = -9
        lines.append(" ".join(names[k] for k in (a, b, c, rng.choice(np.flatnonzero(scores > scores.max() - 1e-5)))))
    return vectors, ": s\n" + "\n".join(lines) + "\n"


@pytest.mark.parametrize("seed", range(3))
def test_answers_that_rounding_decides_are_the_programs(tmp_path, seed):
    vectors, text = tied_questions(seed)
    (tmp_path / "q.txt").write_text(text)
    test = words.read_analogies(tmp_path / "q.txt")
    [ours] = asked(vectors, [test], "compute-accuracy")
    assert ours.details["printed"] == reference_words.compute_accuracy(vectors.words, vectors.vectors, text)
    assert 10 < ours.values.sum() < 140
    [ours] = asked(vectors, [test], "gensim")
    assert ours.score == as_gensim(vectors).evaluate_word_analogies(str(tmp_path / "q.txt"))[0]


@pytest.mark.parametrize("seed", range(3))
def test_of_equal_answers_hyperwords_takes_the_first_in_the_alphabet(tmp_path, seed):
    vectors, text = tied_questions(seed, scale=1)
    (tmp_path / "q.txt").write_text(text)
    test = words.read_analogies(tmp_path / "q.txt")
    found = [each.score for each in asked(vectors, [test], "hyperwords")]
    assert found == list(reference_words.hyperwords_analogies(vectors.words, vectors.vectors, test.words))
    assert 0.1 < found[0] < 0.9


def test_the_printed_lines_of_files_with_few_sections(tmp_path):
    """Without a sixth section there is no syntactic accuracy, which C prints as -nan; questions before any header count."""
    vectors = toy(share=1.0)
    for text in (": s\nboy girl brother sister\n", "boy girl brother sister\n: late\nboy girl he she\n", ": s\nx y z u\n"):
        (tmp_path / "q.txt").write_text(text)
        [answers] = asked(vectors, [words.read_analogies(tmp_path / "q.txt")], "compute-accuracy")
        assert answers.details["printed"] == reference_words.compute_accuracy(vectors.words, vectors.vectors, text)


# ---- hyperwords


def test_hyperwords_counts_pairs_with_unknown_words(monkeypatch):
    vectors = toy(share=0.8, cased=True)
    test = words.read_pairs(WORDSIM)
    [answers] = asked(vectors, [test], "hyperwords")
    items = [(a, b, score) for (a, b), score in zip(test.words, test.gold.tolist(), strict=True)]
    assert answers.score == pytest.approx(reference_words.hyperwords_pairs(vectors.words, vectors.vectors, items), abs=1e-12)
    assert answers.used.all()
    assert 20 < answers.details["oov"] < 200
    assert answers.details["printed"] == [f"{answers.score:.3f}"]
    other = words.read_pairs(Path(datapath("simlex999.txt")))
    both = asked(vectors, [test, other], "hyperwords")
    assert words.pooled(both).details["oov"] == sum(each.details["oov"] for each in both) > answers.details["oov"]
    embedx = asked(vectors, [test], "embedx")[0]
    assert np.count_nonzero(embedx.used) == len(test) - embedx_oov(vectors, test)


def embedx_oov(vectors, test):
    known = {word.upper() for word in vectors.words}
    return sum(a.upper() not in known or b.upper() not in known for a, b in test.words)


@pytest.mark.parametrize("share", [0.6, 0.9])
def test_hyperwords_answers_all_questions_both_ways(tmp_path, share, monkeypatch):
    small_blocks(monkeypatch)
    whole, test = toy(share=share, cased=True), words.read_analogies(some_questions(tmp_path, 300))
    in_test = {word.lower() for each in test.words for word in each}
    with_vector = np.flatnonzero(np.any(whole.vectors, axis=1)).tolist()  # a zero vector ends hyperwords
    keep = [row for row in with_vector if row < 200 or whole.words[row].lower() in in_test]
    vectors = WordVectors([whole.words[row] for row in keep], {"input": whole.vectors[keep]})
    add, mul = asked(vectors, [test], "hyperwords")
    expected = reference_words.hyperwords_analogies(vectors.words, vectors.vectors, test.words)
    assert (add.score, mul.score) == pytest.approx(expected, abs=1e-12)
    assert add.used.all()
    assert mul.used.all()
    assert add.score != mul.score
    assert [each.test.name for each in (add, mul)] == ["questions (3cosadd)", "questions (3cosmul)"]
    known = set(vectors.words)
    assert add.details["oov"] == sum(any(word.lower() not in known for word in each) for each in test.words) > 0


def test_hyperwords_asks_with_its_first_word_for_an_unknown_one_and_never_loses_those_asked_with():
    rng = np.random.default_rng(2)
    names = ["zebra", "ant", "bee", "cow", "dog"]
    vectors = WordVectors(names, {"input": rng.normal(size=(5, 3)).astype(np.float32)})
    every = list(itertools.product(*[[*names, "unknown"]] * 3, ["ant", "cow"]))
    test = words.Analogies("all", ["s"] * len(every), every)
    found = [each.score for each in asked(vectors, [test], "hyperwords")]
    assert found == pytest.approx(reference_words.hyperwords_analogies(names, vectors.vectors, every), abs=1e-12)
    # all but the words asked with may point away so far that one of these, at 0, is the answer
    opposite = np.array([[1, 0.1, 0], [-1, 0, 0.1], [-1, 0, -0.1], [-1, 0.1, 0], [-1, -0.1, 0]], np.float32)
    vectors = WordVectors(names, {"input": opposite})
    found = [each.score for each in asked(vectors, [test], "hyperwords")]
    assert found == pytest.approx(reference_words.hyperwords_analogies(names, opposite, every), abs=1e-12)


# ---- 3CosMul, blocks


def test_own_3cosmul_is_that_of_the_paper(tmp_path, monkeypatch):
    small_blocks(monkeypatch)
    whole = toy(cased=True, share=0.9)
    vectors = WordVectors(whole.words[200:1500], {"input": whole.vectors[200:1500]})
    test = words.read_analogies(some_questions(tmp_path, 2_000))
    [answers] = asked(vectors, [test], "embedx", method="3cosmul")
    assert answers.test.name == "questions (3cosmul)"
    checked = np.flatnonzero(answers.used)[:120]
    assert len(checked) == 120
    for item in checked.tolist():
        a, b, c, expected = test.words[item]
        assert answers.values[item] == (reference_words.cosmul(vectors.words, vectors.vectors, a, b, c) == expected.upper())


@pytest.mark.filterwarnings("ignore:(invalid value|divide by zero)")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_block_sizes_change_nothing(tmp_path, protocol, monkeypatch):
    vectors, test = toy(share=0.9), words.read_analogies(some_questions(tmp_path, 200))
    whole = asked(vectors, [test], protocol)
    for n_block, n_score in ((100_000, 7), (3_000, 100_000)):
        monkeypatch.setattr(analogies, "BLOCK_FLOATS", n_block)
        monkeypatch.setattr(analogies, "SCORE_FLOATS", n_score)
        for mine, all_at_once in zip(asked(vectors, [test], protocol), whole, strict=True):
            np.testing.assert_array_equal(mine.values, all_at_once.values)


def test_memory_does_not_grow_with_questions_and_words(monkeypatch):
    monkeypatch.setattr(analogies, "BLOCK_FLOATS", 1 << 16)
    monkeypatch.setattr(analogies, "SCORE_FLOATS", 1 << 14)
    rng = np.random.default_rng(0)
    table = rng.normal(size=(20_000, 8)).astype(np.float32)
    rows = rng.integers(100, size=(1_000, 3))
    questions = analogies.Questions(table, rows, np.column_stack([np.arange(1_000), rows[:, 0]]))
    tracemalloc.start()
    try:
        questions.answers(analogies.Questions.double, Silent())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4_000_000  # all scores would be 80,000,000 bytes


# ---- what they have not


@pytest.mark.parametrize(
    ("protocol", "options", "complaint"),
    [
        ("word2vec", {}, "--protocol word2vec: choose one of embedx, gensim, compute-accuracy, hyperwords"),
        (
            "compute-accuracy",
            {"pairs": True},
            "wordsim353: --protocol compute-accuracy has no word pairs; give --analogies alone",
        ),
        ("hyperwords", {"candidates": 10}, "--candidates does not apply to --protocol hyperwords, which knows all words"),
        ("gensim", {"method": "3cosmul"}, "--method does not apply to --protocol gensim, which has 3cosadd"),
        ("embedx", {"method": "cosmul"}, "--method cosmul: must be 3cosadd or 3cosmul"),
        ("hyperwords", {"categories": True}, "animals: --protocol hyperwords has no categories and no outliers"),
    ],
)
def test_what_a_protocol_has_not_is_refused(tmp_path, protocol, options, complaint):
    tests = [words.read_pairs(WORDSIM)] if options.pop("pairs", False) else []
    if options.pop("categories", False):
        tests.append(words.Categories("animals", ["owl", "cat"], ["bird", "mammal"]))
    with pytest.raises(EmbedxError, match=re.escape(complaint)):
        protocol_of(protocol).tests(tests, **options)
