"""What is asked of word vectors, and how it is counted: our own protocol, and those of three programs with their numbers.

    embedx             gensim's, with analogies among the first 30,000 words; 3CosAdd, or 3CosMul with --method
    gensim             `evaluate_word_pairs` and `evaluate_word_analogies` with their defaults: words are folded to upper case,
                       and of several variants the first one counts; an item with a word outside the first 300,000 is left
                       out; the best of gensim's first five answers that is no variant of a word asked with
    compute-accuracy   word2vec.c's program for analogies, with the threshold 30,000 of its examples: a to z are folded to
                       upper case; questions with an unknown word are skipped; the answer is any other row than those asked
                       with, also a variant, and there is none where all point away; the first five sections are semantic
    hyperwords         `ws_eval` and `analogy_eval` of Levy, Goldberg & Dagan 2015: items are folded to lower case, the
                       vocabulary is not; nothing is left out. A pair with an unknown word has similarity 0. An unknown word
                       of a question has the vector of the first word in alphabetic order, and an unknown answer is wrong.
                       Similarities are (cos + 1) / 2, in which the words asked with count 0; 3CosMul adds 0.01 below

The files are read as `embedx.evaluation.word_sets` says, so the numbers are those of the programs on files that these read
whole. Sums that are too close for single precision are made as the program makes them: by gensim itself, in word2vec.c's order
(without fused multiply-adds), and for hyperwords, whose order is the linear algebra library's, in double precision. hyperwords
hands human scores to scipy as text, which some versions rank as text; here they are numbers.
"""

import dataclasses
import itertools
import math
import string
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import stats

from embedx.errors import EmbedxError, choice
from embedx.evaluation import groups
from embedx.evaluation.analogies import Questions
from embedx.evaluation.with_gensim import as_file
from embedx.evaluation.word_report import number
from embedx.evaluation.word_sets import (
    ANALOGY_CANDIDATES,
    FEWEST,
    METHODS,
    PAIR_CANDIDATES,
    Analogies,
    Answers,
    Asked,
    Categories,
    Outliers,
    SimilarityPairs,
)
from embedx.run.progress import Progress

ALL_WORDS = 1 << 62  # as a number of candidates
SEMANTIC_SECTIONS = 5  # of Google's questions, by compute-accuracy
HYPERWORDS_EPSILON = 0.01
A_TO_Z = str.maketrans(string.ascii_lowercase, string.ascii_uppercase)


@dataclasses.dataclass(frozen=True)
class Protocol:
    """How tests are put to gensim's KeyedVectors, and counted."""

    name: str
    case: str  # what becomes of it
    about: dict[str, str]
    candidates: int  # of analogies, unless told
    questions: Callable[[Analogies, Any, Progress], Answers]
    pairs: Callable[[SimilarityPairs, Any], Answers] | None  # None if it has no such test
    methods: tuple[str, ...] = METHODS[:1]  # that analogies are scored by, each for itself
    has_choice: bool = False  # whether another of METHODS may be asked for
    has_groups: bool = False  # whether it has tests of categories and outliers

    def tests(self, tests: Sequence[Asked], candidates: int | None = None, method: str | None = None) -> list[Asked]:
        """The tests as this protocol puts them. Raises `EmbedxError` if it has no such test or option."""
        if candidates is not None and candidates < 1:
            raise EmbedxError(f"--candidates {candidates}: must be at least 1")
        if method is not None and method not in METHODS:
            raise EmbedxError(f"--method {method}: must be {' or '.join(METHODS)}")
        if method is not None and not self.has_choice:
            raise EmbedxError(f"--method does not apply to --protocol {self.name}, which has {' and '.join(self.methods)}")
        if candidates is not None and self.candidates == ALL_WORDS:
            raise EmbedxError(f"--candidates does not apply to --protocol {self.name}, which knows all words")
        found: list[Asked] = []
        for test in tests:
            if isinstance(test, Analogies):
                methods = self.methods if method is None else (method,)
                for each in methods:
                    name = test.name if each == METHODS[0] and len(methods) == 1 else f"{test.name} ({each})"
                    most = candidates or self.candidates
                    found.append(dataclasses.replace(test, name=name, candidates=most, method=each))
            elif isinstance(test, SimilarityPairs):
                if self.pairs is None:
                    raise EmbedxError(f"{test.name}: --protocol {self.name} has no word pairs; give --analogies alone")
                found.append(dataclasses.replace(test, candidates=ALL_WORDS) if self.candidates == ALL_WORDS else test)
            elif not self.has_groups:
                raise EmbedxError(f"{test.name}: --protocol {self.name} has no categories and no outliers")
            else:
                found.append(test)
        return found

    def ask(self, test: Asked, vectors: Any, progress: Progress) -> Answers:
        """What gensim's KeyedVectors make of a test."""
        test = dataclasses.replace(test, candidates=len(vectors)) if test.candidates == ALL_WORDS else test
        if isinstance(test, Analogies):
            return self.questions(test, vectors, progress)
        if isinstance(test, Categories):
            return groups.purity(test, vectors)
        if isinstance(test, Outliers):
            return groups.outliers(test, vectors)
        assert self.pairs is not None
        return self.pairs(test, vectors)


def by_section(test: Analogies, values: np.ndarray) -> dict[str, dict[str, int]]:
    """How many questions of each section count, and how many are answered rightly, from values float64 (items,)."""
    found: dict[str, dict[str, int]] = {}
    for name, value in zip(test.sections, values.tolist(), strict=True):
        counts = found.setdefault(name, {"correct": 0, "used": 0})
        if not math.isnan(value):
            counts["used"] += 1
            counts["correct"] += int(value)
    return found


# ---- gensim's


def pairs_by_gensim(test: SimilarityPairs, vectors: Any) -> Answers:
    """`evaluate_word_pairs`, and the cosine of each pair."""
    known = groups.folded(vectors.index_to_key[: test.candidates])
    values = np.array(
        [
            vectors.similarity(known[a], known[b]) if a in known and b in known else np.nan
            for a, b in ((a.upper(), b.upper()) for a, b in test.words)
        ]
    )
    if np.count_nonzero(~np.isnan(values)) < FEWEST:
        return Answers(test, values, math.nan, {})
    lines = [f"{a}\t{b}\t{gold!r}\n" for (a, b), gold in zip(test.words, test.gold.tolist(), strict=True)]
    with as_file(lines) as file:
        pearson, spearman, oov_ratio = vectors.evaluate_word_pairs(file, restrict_vocab=test.candidates)
    details = {"pearson": pearson[0], "pearson_p": pearson[1], "spearman_p": spearman[1], "oov_ratio": oov_ratio}
    return Answers(test, values, float(spearman[0]), {name: number(value) for name, value in details.items()})


def questions_by_gensim(test: Analogies, vectors: Any, progress: Progress) -> Answers:
    """`evaluate_word_analogies`, with searches made ahead; with 3cosmul, which it has not, the same but for the scores."""
    questions = [tuple(word.upper() for word in words) for words in test.words]
    known = groups.folded(vectors.index_to_key[: test.candidates])
    usable = [question for question in questions if all(word in known for word in question)]
    if len(usable) < FEWEST:
        return Answers(test, np.full(len(test), np.nan), math.nan, {})
    ahead = Ahead(vectors, usable, test.candidates, test.method)
    if test.method != METHODS[0]:
        words = vectors.index_to_key
        rows = ahead.questions.answers(Questions.double, progress)
        answer = {question: words[row].upper() for question, row in zip(ahead.asked, rows.tolist(), strict=True)}
        is_usable = set(usable)
        right = [float(answer[each[:3]] == each[3]) if each in is_usable else np.nan for each in questions]
        values = np.array(right)
        return Answers(test, values, float(np.nanmean(values)), {"method": test.method, "sections": by_section(test, values)})
    lines: list[str] = []
    for section, items in itertools.groupby(zip(test.sections, test.words, strict=True), key=lambda item: item[0]):
        lines += [f": {section}\n", *(" ".join(words) + "\n" for _, words in items)]
    ahead.take_over(vectors, progress)
    try:
        with as_file(lines) as file:
            score, sections = vectors.evaluate_word_analogies(file, restrict_vocab=test.candidates)
    finally:
        del vectors.most_similar
    marks = {"correct": 1.0, "incorrect": 0.0}
    outcome = {question: mark for kind, mark in marks.items() for question in sections[-1][kind]}
    values = np.array([outcome.get(question, np.nan) for question in questions])
    return Answers(test, values, float(score), {"sections": by_section(test, values)})


class Ahead:
    """Questions whose words are known, and gensim's answers to them without gensim's search.

    gensim searches for one question at a time, which takes many times as long. The two add up their products in different
    orders, so where the best two answers are closer than rounding can tell, gensim's own search is left to decide: the answers
    are the same, always.
    """

    def __init__(self, vectors: Any, usable: Sequence[tuple[str, ...]], candidates: int, method: str) -> None:
        self.words = vectors.index_to_key[:candidates]
        rows: dict[str, list[int]] = {}  # of all words with the same upper-case form, most frequent first
        for row, word in enumerate(self.words):
            rows.setdefault(word.upper(), []).append(row)
        self.asked = list(dict.fromkeys(question[:3] for question in usable))
        asked = np.array([[rows[word][0] for word in question] for question in self.asked])
        barred = [(k, row) for k, question in enumerate(self.asked) for word in set(question) for row in rows[word]]
        self.questions = Questions(vectors.vectors[:candidates], asked, np.array(barred), method)

    def take_over(self, vectors: Any, progress: Progress) -> None:
        """Replace `vectors.most_similar` by one that knows the answers."""
        questions = self.questions
        best = questions.best(progress)
        margins, asked, barred = questions.margins(best), questions.asked, questions.barred
        # gensim takes the first that is no variant of a word asked with, among the best five after those words themselves
        is_variant = (asked[barred[:, 0]] != barred[:, 1:]).all(axis=1)
        is_ahead = is_variant & (best.barred > (best.scores - margins)[barred[:, 0]])
        n_ahead = np.bincount(barred[is_ahead, 0], minlength=len(asked))
        a, b, c = (questions.table[rows] * questions.inverse[rows, None] for rows in asked.T)
        has_direction = np.any(b - a + c, axis=1) & (questions.norms[asked] > 0).all(axis=1)
        is_certain = np.flatnonzero((best.gaps > margins) & (n_ahead < 5) & has_direction)
        answers = {self.asked[k]: self.words[best.rows[k]] for k in is_certain.tolist()}
        search = vectors.most_similar

        def most_similar(positive: list[str], negative: list[str], **options: Any) -> list[tuple[str, float]]:
            word = answers.get((*negative, *positive))
            return [(word, math.nan)] if word else search(positive, negative, **options)

        vectors.most_similar = most_similar


# ---- word2vec.c's


def questions_by_compute_accuracy(test: Analogies, vectors: Any, progress: Progress) -> Answers:
    """What word2vec.c's compute-accuracy counts, and prints."""
    words = [word.translate(A_TO_Z) for word in vectors.index_to_key[: test.candidates]]
    known = {word: row for row, word in reversed(list(enumerate(words)))}
    questions = [tuple(word.translate(A_TO_Z) for word in each) for each in test.words]
    rows = [[known.get(word, -1) for word in question] for question in questions]
    used = np.array([min(each) >= 0 for each in rows])
    values = np.where(used, 0.0, np.nan)
    if used.any():
        asked = np.array(rows)[used, :3]
        found = answered(vectors.vectors[: test.candidates], asked, asked, METHODS[0], 0.001, in_order, progress, floor=0.0)
        expected = [question[3] for question, is_used in zip(questions, used, strict=True) if is_used]
        values[used] = [row >= 0 and words[row] == word for row, word in zip(found.tolist(), expected, strict=True)]
    score = float(np.nanmean(values)) if used.any() else math.nan
    return Answers(test, values, score, printed(test, values) | {"sections": by_section(test, values)})


def in_order(questions: Questions, pairs: np.ndarray) -> np.ndarray:
    """The score of each (question, row) as word2vec.c adds it up: in single precision, one dimension after the other."""

    def units(rows: np.ndarray) -> np.ndarray:
        vectors = questions.table[rows]
        length = np.sqrt(np.add.accumulate(vectors * vectors, axis=1)[:, -1])
        return np.asarray(vectors / length[:, None])

    a, b, c = (units(rows) for rows in questions.asked[pairs[:, 0]].T)
    products = ((b - a) + c) * units(pairs[:, 1])
    return np.asarray(np.add.accumulate(products, axis=1)[:, -1], np.float64)


def printed(test: Analogies, values: np.ndarray) -> dict[str, Any]:
    """The lines of compute-accuracy, and the numbers in them."""
    headers, numbers = test.numbered()
    section = np.array(numbers)
    used = ~np.isnan(values)
    correct = used & (values > 0)
    lines: list[str] = []
    for k, header in enumerate(headers, 1):
        so_far = [used & (section <= k), used & (section <= min(k, SEMANTIC_SECTIONS))]
        so_far.append(so_far[0] & (section > SEMANTIC_SECTIONS))
        right, n = count(correct & (section == k)), count(used & (section == k)) or 1
        total, semantic, syntactic = (per_cent(count(correct & each), count(each)) for each in so_far)
        lines += [
            f"{header.split()[0]}:",
            f"ACCURACY TOP1: {per_cent(right, n)} %  ({right} / {n})",
            f"Total accuracy: {total} %   Semantic accuracy: {semantic} %   Syntactic accuracy: {syntactic} % ",
        ]
    seen, total_seen = count(used), len(values)
    lines.append(f"Questions seen / total: {seen} {total_seen}   {per_cent(seen, total_seen)} % ")
    kinds = {"semantic": used & (section <= SEMANTIC_SECTIONS), "syntactic": used & (section > SEMANTIC_SECTIONS)}
    return {name: {"correct": count(correct & each), "used": count(each)} for name, each in kinds.items()} | {"printed": lines}


def count(items: np.ndarray) -> int:
    return int(np.count_nonzero(items))


def per_cent(part: int, whole: int) -> str:
    """As C prints it from single precision."""
    return f"{np.float32(part) / np.float32(whole) * np.float32(100):.2f}" if whole else "-nan"


# ---- hyperwords'


def pairs_by_hyperwords(test: SimilarityPairs, vectors: Any) -> Answers:
    """`ws_eval`: Spearman's correlation with the cosines, which are 0 for unknown words."""
    known = {word: row for row, word in enumerate(vectors.index_to_key)}
    table = vectors.vectors
    values = np.zeros(len(test))
    n_unknown = 0
    for item, (a, b) in enumerate(test.words):
        rows = [known.get(word.lower(), -1) for word in (a, b)]
        n_unknown += min(rows) < 0
        if min(rows) >= 0:
            x, y = (table[row].astype(np.float64) for row in rows)
            length = math.sqrt(float(x @ x) * float(y @ y))
            values[item] = float(x @ y) / length if length > 0 else math.nan
    used = values[~np.isnan(values)]
    gold = test.gold[~np.isnan(values)]
    if len(used) < FEWEST or np.ptp(used) == 0 or np.ptp(gold) == 0:
        return Answers(test, values, math.nan, {"oov": n_unknown})
    score = float(stats.spearmanr(values, test.gold)[0]) if len(used) == len(values) else math.nan
    return Answers(test, values, score, {"oov": n_unknown, "printed": [f"{score:.3f}"]})


def questions_by_hyperwords(test: Analogies, vectors: Any, progress: Progress) -> Answers:
    """`analogy_eval`, by the method of the test."""
    words = vectors.index_to_key
    known = {word: row for row, word in enumerate(words)}
    alphabetic = sorted(range(len(words)), key=words.__getitem__)
    rank = np.empty(len(words), np.int64)
    rank[alphabetic] = np.arange(len(words))
    rows = np.array([[known.get(word.lower(), -1) for word in each] for each in test.words])
    is_known = rows[:, :3] >= 0
    asked = np.where(is_known, rows[:, :3], alphabetic[0])
    # Words asked with have similarity 0: as scores are sums of cosines, that is -1 of them.
    floor = -1.0 if test.method == "3cosadd" else 0.0
    found = answered(
        vectors.vectors, asked, rows[:, :3], test.method, HYPERWORDS_EPSILON, Questions.double, progress, floor, rank
    )
    first = np.where(is_known, rank[asked], len(words)).min(axis=1)
    zero = np.array([*alphabetic, -1])[first]  # what is left where nothing scores more
    found = np.where((found < 0) & is_known.any(axis=1), zero, found)
    values = ((found == rows[:, 3]) & (rows[:, 3] >= 0)).astype(np.float64)
    score = float(values.mean())
    n_unknown = count(rows.min(axis=1) < 0)
    details = {"method": test.method, "oov": n_unknown, "sections": by_section(test, values), "printed": [f"{score:.3f}"]}
    return Answers(test, values, score, details)


def answered(
    table: np.ndarray,
    asked: np.ndarray,  # int64 (questions, 3)
    barred: np.ndarray,  # int64 (questions, n): rows that are no answer; -1 for nothing
    method: str,
    epsilon: float,
    exact: Callable[[Questions, np.ndarray], np.ndarray],
    progress: Progress,
    floor: float = -np.inf,
    rank: np.ndarray | None = None,
) -> np.ndarray:
    """See `Questions.answers`; questions that are asked several times, or with a zero vector, cost nothing."""
    both, back = np.unique(np.hstack([asked, barred]), axis=0, return_inverse=True)
    asked, barred = both[:, :3], both[:, 3:]
    k, n = np.nonzero(barred >= 0)
    questions = Questions(table, asked, np.unique(np.column_stack([k, barred[k, n]]), axis=0), method, epsilon)
    has_vectors = np.flatnonzero((questions.norms[asked] > 0).all(axis=1))
    found = np.full(len(asked), -1)
    if len(has_vectors):
        found[has_vectors] = questions.some(has_vectors).answers(exact, progress, floor, rank)
    return np.asarray(found[back.reshape(-1)])


# ---- all of them

LEFT_OUT = "items with one are left out and counted as oov"
GENSIM = {"case": "ignored; the most frequent variant counts", "unknown_words": LEFT_OUT, "scored_by": "gensim"}

PROTOCOLS = {
    each.name: each
    for each in (
        Protocol(
            "embedx",
            "ignored",
            GENSIM,
            ANALOGY_CANDIDATES,
            questions_by_gensim,
            pairs_by_gensim,
            has_choice=True,
            has_groups=True,
        ),
        Protocol("gensim", "ignored", GENSIM, PAIR_CANDIDATES, questions_by_gensim, pairs_by_gensim),
        Protocol(
            "compute-accuracy",
            "a to z",
            {
                "case": "a to z are folded to upper case; the first variant counts, and another may be the answer",
                "unknown_words": LEFT_OUT,
                "scored_by": "as word2vec.c's compute-accuracy does",
            },
            ANALOGY_CANDIDATES,
            questions_by_compute_accuracy,
            None,
        ),
        Protocol(
            "hyperwords",
            "lower",
            {
                "case": "items are folded to lower case, the vocabulary is not",
                "unknown_words": "pairs with one have similarity 0; questions are asked with the first word in its place",
                "scored_by": "as hyperwords' ws_eval and analogy_eval do",
            },
            ALL_WORDS,
            questions_by_hyperwords,
            pairs_by_hyperwords,
            methods=METHODS,
        ),
    )
}


def protocol_of(name: str) -> Protocol:
    """The protocol of that name."""
    if name not in PROTOCOLS:
        raise EmbedxError(f"--protocol {name}: {choice(name, PROTOCOLS)}")
    return PROTOCOLS[name]
