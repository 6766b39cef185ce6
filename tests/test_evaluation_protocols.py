"""The presets give the numbers of the programs that they are named after, whatever the block size, and refuse the rest."""

import re
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import reference_words
from needs import HAS_NO_GENSIM, WHY_NO_GENSIM

from embedx.errors import EmbedxError
from embedx.evaluation import analogies, word_sets, words
from embedx.evaluation.protocols import prepared
from embedx.training.progress import Silent
from embedx.vectors.model import WordVectors

if HAS_NO_GENSIM:
    pytest.skip(WHY_NO_GENSIM, allow_module_level=True)
from gensim.test.utils import datapath
from test_evaluation_words import as_gensim, some_questions, toy

WORDSIM = Path(datapath("wordsim353.tsv"))


def asked(vectors, tests, protocol, **options):
    return words.score(vectors, prepared(protocol, tests, **options), protocol=protocol)


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
    pairs, questions = asked(vectors, [word_sets.read_pairs(WORDSIM), word_sets.read_analogies(file)], "gensim")
    details = {"pearson": pearson[0], "pearson_p": pearson[1], "spearman_p": spearman[1], "oov_ratio": oov_ratio}
    assert (pairs.score, pairs.details) == (spearman[0], {name: float(value) for name, value in details.items()})
    assert questions.score == score
    assert questions.test.candidates == 300_000
    assert questions.details["sections"] == {
        part["section"]: {"correct": len(part["correct"]), "used": len(part["correct"] + part["incorrect"])}
        for part in sections[:-1]
    }


# ---- 3CosMul, blocks


def test_own_3cosmul_is_that_of_the_paper(tmp_path, monkeypatch):
    small_blocks(monkeypatch)
    whole = toy(cased=True, share=0.9)
    vectors = WordVectors(whole.words[200:1500], {"input": whole.vectors[200:1500]})
    test = word_sets.read_analogies(some_questions(tmp_path, 2_000))
    [answers] = asked(vectors, [test], "embedx", method="3cosmul")
    assert answers.test.name == "questions (3cosmul)"
    checked = np.flatnonzero(answers.used)[:120]
    assert len(checked) == 120
    for item in checked.tolist():
        a, b, c, expected = test.words[item]
        assert answers.values[item] == (reference_words.cosmul(vectors.words, vectors.vectors, a, b, c) == expected.upper())


def test_memory_does_not_grow_with_questions_and_words(monkeypatch):
    monkeypatch.setattr(analogies, "BLOCK_FLOATS", 1 << 16)
    monkeypatch.setattr(analogies, "SCORE_FLOATS", 1 << 14)
    rng = np.random.default_rng(0)
    table = rng.normal(size=(20_000, 8)).astype(np.float32)
    rows = rng.integers(100, size=(1_000, 3))
    barred = np.column_stack([np.arange(1_000), rows[:, 0]])
    tracemalloc.start()
    try:
        analogies.best_answers(table, rows, barred, Silent())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4_000_000  # all scores would be 80,000,000 bytes


# ---- what they have not


@pytest.mark.parametrize(
    ("protocol", "options", "complaint"),
    [
        ("hyperwords", {}, "--protocol hyperwords: choose one of embedx, gensim"),
        ("gensim", {"method": "3cosmul"}, "--method does not apply to --protocol gensim, which has 3cosadd"),
        ("embedx", {"method": "cosmul"}, "--method cosmul: must be 3cosadd or 3cosmul"),
        ("gensim", {"categories": True}, "animals: --protocol gensim has no categories and no outliers"),
    ],
)
def test_what_a_protocol_has_not_is_refused(tmp_path, protocol, options, complaint):
    tests = [word_sets.read_pairs(WORDSIM)] if options.pop("pairs", False) else []
    if options.pop("categories", False):
        tests.append(word_sets.Categories("animals", ["owl", "cat"], ["bird", "mammal"]))
    with pytest.raises(EmbedxError, match=re.escape(complaint)):
        prepared(protocol, tests, **options)
