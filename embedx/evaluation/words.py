"""Word vectors against people's judgement: similarity of word pairs and analogies, scored by gensim.

The protocol is gensim's, and every score is printed with it, because without it a score means nothing:

    case          ignored: words are folded to upper case, and of several variants the most frequent one counts
    unknown       an item with a word outside the vocabulary is left out, and counted; with `oov`, a pair is scored by the
                  vectors that such words have by their n-grams, in lower case where no word of the vocabulary has capitals
    candidates    similarity knows the first 300,000 words; analogies know, and answer with, the first 30,000
    similarity    Spearman's rank correlation of cosines with the mean human score
    analogy       a : b = c : ?  answered by 3CosAdd, the word nearest to b - a + c other than a, b and c
    pooled        the mean of the correlations of several similarity sets, each weighted by its pairs: one number whose error is
                  about half of one set's; a set that is a part of another does not count, as the two halves of WordSim-353
                  and MC-30, all of which is in RG-65

Each score has a 95 % interval from resampling its items; see `embedx.evaluation.bootstrap` for what it covers. Questions of
an analogy section share words, so the true interval of analogies is wider than the one of independent questions given here.

No other module imports gensim.
"""

import contextlib
import dataclasses
import itertools
import logging
import math
import os
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from embedx.errors import EmbedxError
from embedx.evaluation import bootstrap
from embedx.evaluation.word_report import Report, Score, ScoreDifference, number
from embedx.labeled.files import Lines, source_of
from embedx.labeled.schema import decoded
from embedx.run.progress import Progress, Silent
from embedx.vectors import model
from embedx.vectors.model import WordVectors

PAIR_CANDIDATES = 300_000  # gensim's default for both kinds; for analogies 30,000 is what word2vec.c's users compare
ANALOGY_CANDIDATES = 30_000
MOST_TEXT = 1 << 23  # bytes; Google's analogies are 600,000
FEWEST = 3  # below this many items there is no correlation to speak of

BLOCK_FLOATS = 1 << 23  # cosines of questions with candidates computed at a time: 32 MB


@dataclasses.dataclass(frozen=True, eq=False)
class Answers:
    """What one model made of one test set."""

    test: "Test"
    values: np.ndarray  # float64 (items,): the cosine, or 1 for a right answer and 0 for a wrong one; NaN if left out
    score: float  # as gensim computes it; NaN if nothing could be scored
    details: dict[str, Any]  # what gensim tells beyond the score

    @property
    def used(self) -> np.ndarray:  # bool (items,)
        return np.asarray(~np.isnan(self.values))


@dataclasses.dataclass(frozen=True, eq=False)
class SimilarityPairs:
    """A list of word pairs with a human score of their similarity."""

    name: str
    words: list[tuple[str, str]]
    gold: np.ndarray  # float64 (items,)
    candidates: int = PAIR_CANDIDATES
    measure: ClassVar[str] = "spearman"

    def __len__(self) -> int:
        return len(self.words)

    def ask(self, vectors: Any, progress: Progress) -> Answers:
        """Score gensim's KeyedVectors."""
        known = folded(vectors.index_to_key[: self.candidates])
        values = np.array(
            [
                vectors.similarity(known[a], known[b]) if a in known and b in known else np.nan
                for a, b in ((a.upper(), b.upper()) for a, b in self.words)
            ]
        )
        if np.count_nonzero(~np.isnan(values)) < FEWEST:
            return Answers(self, values, math.nan, {})
        lines = [f"{a}\t{b}\t{gold!r}\n" for (a, b), gold in zip(self.words, self.gold.tolist(), strict=True)]
        with as_file(lines) as file:
            pearson, spearman, _ = vectors.evaluate_word_pairs(file, restrict_vocab=self.candidates)
        return Answers(self, values, float(spearman[0]), {"pearson": number(pearson[0])})

    def sizes(self, items: np.ndarray) -> list[int]:
        """How many of the given items are resampled together."""
        return [int(np.count_nonzero(items))]

    def statistic(self, values: np.ndarray, items: np.ndarray) -> bootstrap.Statistic:
        """The measure on the given items, as a function of how often each is drawn."""
        return bootstrap.spearman(self.gold[items], values[items])


@dataclasses.dataclass(frozen=True, eq=False)
class Analogies:
    """A list of questions: a is to b as c is to d."""

    name: str
    sections: list[str]  # of each item
    words: list[tuple[str, str, str, str]]
    candidates: int = ANALOGY_CANDIDATES
    measure: ClassVar[str] = "accuracy"

    def __len__(self) -> int:
        return len(self.words)

    def ask(self, vectors: Any, progress: Progress) -> Answers:
        """Score gensim's KeyedVectors."""
        questions = [tuple(word.upper() for word in words) for words in self.words]
        known = folded(vectors.index_to_key[: self.candidates])
        usable = [question for question in questions if all(word in known for word in question)]
        if len(usable) < FEWEST:
            return Answers(self, np.full(len(self), np.nan), math.nan, {})
        lines: list[str] = []
        for section, items in itertools.groupby(zip(self.sections, self.words, strict=True), key=lambda item: item[0]):
            lines += [f": {section}\n", *(" ".join(words) + "\n" for _, words in items)]
        search_ahead(vectors, usable, self.candidates, progress)
        try:
            with as_file(lines) as file:
                score, sections = vectors.evaluate_word_analogies(file, restrict_vocab=self.candidates)
        finally:
            del vectors.most_similar
        marks = {"correct": 1.0, "incorrect": 0.0}
        outcome = {question: mark for kind, mark in marks.items() for question in sections[-1][kind]}
        values = np.array([outcome.get(question, np.nan) for question in questions])
        by_section = {
            part["section"]: {"correct": len(part["correct"]), "used": len(part["correct"]) + len(part["incorrect"])}
            for part in sections[:-1]
        }
        return Answers(self, values, float(score), {"sections": by_section})

    def sizes(self, items: np.ndarray) -> list[int]:
        """How many of the given items are resampled together."""
        return [int(np.count_nonzero(items))]

    def statistic(self, values: np.ndarray, items: np.ndarray) -> bootstrap.Statistic:
        """The measure on the given items, as a function of how often each is drawn."""
        return bootstrap.mean(values[items])


@dataclasses.dataclass(frozen=True, eq=False)
class PooledPairs:
    """Several lists of word pairs as one test, whose items are those of the first, then those of the second, and so on."""

    tests: list[SimilarityPairs]
    name: ClassVar[str] = "pooled"
    measure: ClassVar[str] = "spearman"

    def __len__(self) -> int:
        return sum(map(len, self.tests))

    @property
    def candidates(self) -> int:
        return max(test.candidates for test in self.tests)

    def parts(self, items: np.ndarray) -> list[np.ndarray]:
        """`items`, bool or float (items,), by list."""
        return np.split(items, np.cumsum([len(test) for test in self.tests])[:-1])

    def sizes(self, items: np.ndarray) -> list[int]:
        """How many of the given items are resampled together: those of a list."""
        return [int(np.count_nonzero(part)) for part in self.parts(items)]

    def statistic(self, values: np.ndarray, items: np.ndarray) -> bootstrap.Statistic:
        """The measure on the given items, as a function of how often each is drawn; a list has FEWEST of them or none."""
        lists = zip(self.tests, self.parts(values), self.parts(items), strict=True)
        statistics = [test.statistic(value, used) if used.any() else _nothing for test, value, used in lists]
        return bootstrap.weighted(statistics, self.sizes(items))


def _nothing(counts: np.ndarray) -> np.ndarray:
    """What the statistic of no items counts for, at weight 0."""
    return np.zeros(len(counts))


Asked = SimilarityPairs | Analogies
Test = Asked | PooledPairs


# ---- test sets


def default_tests() -> list[Asked]:
    """WordSim-353, SimLex-999 and Google's analogies, from gensim's package."""
    with gensim_quietly():
        from gensim.test.utils import datapath
    return [
        read_pairs(Path(datapath("wordsim353.tsv")), "WordSim-353"),
        read_pairs(Path(datapath("simlex999.txt")), "SimLex-999"),
        read_analogies(Path(datapath("questions-words.txt")), "Google analogies"),
    ]


def read_pairs(path: Path, name: str | None = None) -> SimilarityPairs:
    """The pairs in a file of `word TAB word TAB score`, or the same with spaces; further columns and `#` lines do not count."""
    words: list[tuple[str, str]] = []
    gold: list[float] = []
    for order, (where, line) in enumerate(lines_of(path)):
        fields = [field.strip() for field in line.split("\t")] if "\t" in line else line.split()
        try:
            a, b, score = fields[0], fields[1], float(fields[2])
        except (IndexError, ValueError):
            if order == 0 and len(fields) > 2:
                continue  # the names of the columns
            raise EmbedxError(f"{where}: not a pair with its score; lines look like `tiger TAB cat TAB 7.35`") from None
        if not (a and b and math.isfinite(score)):
            raise EmbedxError(f"{where}: a word is missing or the score is not finite; mend or delete the line")
        words.append((a, b))
        gold.append(score)
    if not words:
        raise EmbedxError(f"{path}: holds no pairs; lines look like `tiger TAB cat TAB 7.35`")
    return SimilarityPairs(name or path.stem, words, np.array(gold))


def read_analogies(path: Path, name: str | None = None, candidates: int = ANALOGY_CANDIDATES) -> Analogies:
    """The questions in a file of four words a line, with `: name` before each section; `#` lines do not count."""
    section = "all"
    sections: list[str] = []
    words: list[tuple[str, str, str, str]] = []
    for where, line in lines_of(path):
        if line.startswith(":"):
            section = line[1:].strip() or "all"
            continue
        fields = line.split()
        if len(fields) != 4:
            raise EmbedxError(f"{where}: {len(fields)} words; a question has four, such as `Athens Greece Oslo Norway`")
        sections.append(section)
        words.append((fields[0], fields[1], fields[2], fields[3]))
    if not words:
        raise EmbedxError(f"{path}: holds no questions; lines look like `Athens Greece Oslo Norway`")
    return Analogies(name or path.stem, sections, words, candidates)


def lines_of(path: Path) -> Iterator[tuple[str, str]]:
    """(file:line, text) of each line that is neither blank nor a `#` comment."""
    if not os.path.exists(path):
        raise EmbedxError(f"{path}: no such file")
    n_bytes = 0
    lines = Lines(source_of(str(path)), Silent())
    for chunk in lines:
        n_bytes += len(chunk)
        if n_bytes > MOST_TEXT:
            raise EmbedxError(f"{path}: more than {MOST_TEXT:,} bytes of text; is it the right file? If so, give a part of it")
        for place, line in enumerate(decoded(lines, chunk).split("\n")[:-1], lines.line):
            if line.strip() and not line.startswith("#"):
                yield f"{path}:{place}", line.strip("\r\n")


# ---- asking a model


def score(
    vectors: "WordVectors | Any", tests: Sequence[Asked] | None = None, progress: Progress | None = None, oov: bool = False
) -> list[Answers]:
    """What `vectors`, ours or gensim's KeyedVectors, make of each test (of the default ones if None).

    oov  whether pairs with words outside the vocabulary are scored by their n-grams
    """
    tests = default_tests() if tests is None else tests
    limit = max(test.candidates for test in tests)
    words = vectors.words if isinstance(vectors, WordVectors) else vectors.index_to_key
    keyed = keyed_vectors([str(word) for word in words[:limit]], vectors.vectors[:limit])
    with gensim_quietly():
        return [
            ask_with_unseen(vectors, test, progress or Silent())
            if oov and isinstance(test, SimilarityPairs) and isinstance(vectors, WordVectors) and vectors.subwords is not None
            else test.ask(keyed, progress or Silent())
            for test in tests
        ]


def ask_with_unseen(vectors: WordVectors, test: SimilarityPairs, progress: Progress) -> Answers:
    """What a model makes of a list of pairs whose unknown words have the vectors that their n-grams give them."""
    words = vectors.words[: test.candidates]
    known, has_capitals = folded(words), any(word != word.lower() for word in words)
    extra: dict[str, np.ndarray] = {}
    for word in dict.fromkeys(itertools.chain.from_iterable(test.words)):
        if word.upper() not in known:
            with contextlib.suppress(model.UnknownWordError):
                extra[word] = vectors[word if has_capitals else word.lower()]
    table = vectors.vectors[: test.candidates]
    if extra:
        table = np.concatenate([table, np.array(list(extra.values()), np.float32)])
    wider = dataclasses.replace(test, candidates=len(words) + len(extra))
    return dataclasses.replace(wider.ask(keyed_vectors([*words, *extra], table), progress), test=test)


def pooled(answers: Sequence[Answers]) -> Answers | None:
    """What a model made of all similarity sets together; None where there are fewer than two."""
    sets = [(each.test, each) for each in answers if isinstance(each.test, SimilarityPairs)]
    pairs = [{frozenset(map(str.upper, words)) for words in test.words} for test, _ in sets]
    # A set counts unless another holds all its pairs; of two with the same pairs the first does.
    is_part = [any(mine < other or (mine == other and j < k) for j, other in enumerate(pairs)) for k, mine in enumerate(pairs)]
    own = [each for (_, each), is_in_another in zip(sets, is_part, strict=True) if not is_in_another]
    if len(own) < 2:
        return None
    test = PooledPairs([test for (test, _), is_in_another in zip(sets, is_part, strict=True) if not is_in_another])
    values = [each.values if np.count_nonzero(each.used) >= FEWEST else np.full(len(each.values), np.nan) for each in own]
    together = Answers(test, np.concatenate(values), math.nan, {"sets": [each.test.name for each in own]})
    used = int(np.count_nonzero(together.used))
    if used < FEWEST:
        return together
    statistic = test.statistic(together.values, together.used)
    return dataclasses.replace(together, score=bootstrap.point(statistic, used))


def open_vectors(path: str | Path, progress: Progress, trust_pickle: bool = False) -> "WordVectors | Any":
    """The word vectors of whatever `embedx.vectors.model.load` reads.

    With `trust_pickle` also those of gensim's own files, which are pickles: opening one runs whatever code is in it. Without,
    they are an `EmbedxError`.
    """
    if trust_pickle and os.path.isfile(path):
        with Path(path).open("rb") as file:
            pickled = file.read(1) == b"\x80"
        if pickled:
            try:
                with gensim_quietly():
                    from gensim.models import KeyedVectors

                    opened = KeyedVectors.load(str(path))
                    opened = getattr(opened, "wv", opened)  # a Word2Vec or FastText model holds its vectors there
                    opened.index_to_key, opened.vectors  # noqa: B018
            except Exception as error:  # a pickle can fail in any way
                raise EmbedxError(f"{path}: gensim finds no word vectors in it ({error})") from error
            return opened
    return model.load(path, progress)


def keyed_vectors(words: list[str], vectors: np.ndarray) -> Any:
    """gensim's KeyedVectors over the given arrays, without copying them as its own methods would."""
    with gensim_quietly():
        from gensim.models import KeyedVectors
    keyed = KeyedVectors(vectors.shape[1])
    keyed.vectors = np.asarray(vectors)
    keyed.index_to_key = words
    keyed.key_to_index = {word: row for row, word in enumerate(words)}
    return keyed


def folded(words: list[str]) -> dict[str, str]:
    """The first word for each upper-case form, as gensim folds case."""
    return {word.upper(): word for word in reversed(words)}


def search_ahead(vectors: Any, questions: list[tuple[str, ...]], candidates: int, progress: Progress) -> None:
    """Replace `vectors.most_similar` by one that gives gensim's answers to `questions` from a few large matrix products.

    gensim searches for one question at a time, which takes several times as long. The two add up their products in
    different orders, so where the best two answers are closer than rounding can tell, gensim's own search is left to
    decide: the answers are the same, always.
    """
    words = vectors.index_to_key[:candidates]
    rows: dict[str, list[int]] = {}  # of all words with the same upper-case form, most frequent first
    for row, word in enumerate(words):
        rows.setdefault(word.upper(), []).append(row)
    vectors.fill_norms()
    table, norms = vectors.vectors[:candidates], vectors.norms[:candidates]
    with np.errstate(invalid="ignore", divide="ignore"):
        inverse = np.where(norms > 0, 1 / norms, 0)
    # |fl(x·y) - x·y| <= dim ε/2 |x| |y| (Higham, Accuracy and Stability, 3.5); two searches, two answers, and the query's own.
    margin = 2 * (table.shape[1] + 8) * np.finfo(np.float32).eps

    answers: dict[tuple[str, ...], str] = {}
    asked = list(dict.fromkeys(question[:3] for question in questions))
    step = max(1, BLOCK_FLOATS // len(words))
    progress.start("Answering analogies", len(asked), "questions")
    for start in range(0, len(asked), step):
        block = asked[start : start + step]
        a, b, c = (np.array([rows[question[k]][0] for question in block]) for k in range(3))
        query = table[b] * inverse[b, None] + table[c] * inverse[c, None] - table[a] * inverse[a, None]
        length = np.linalg.norm(query, axis=1)
        cosines = (query / np.where(length > 0, length, 1)[:, None]) @ table.T * inverse
        cosines[:, norms == 0] = -np.inf
        for i, question in enumerate(block):
            inputs = [a[i], b[i], c[i]]
            variants = [row for word in set(question) for row in rows[word] if row not in inputs]
            ignored = cosines[i, variants]
            cosines[i, inputs + variants] = -np.inf
            best = int(cosines[i].argmax())
            top = cosines[i, best]
            cosines[i, best] = -np.inf
            certain = top - cosines[i].max() > margin and length[i] > 0 and (norms[inputs] > 0).all()
            # gensim takes the first that is no variant of a word asked with, among the best five after those words themselves
            if certain and np.count_nonzero(ignored > top - margin) < 5:
                answers[question] = words[best]
        progress.update(start + len(block))
    progress.finish()
    search = vectors.most_similar

    def most_similar(positive: list[str], negative: list[str], **options: Any) -> list[tuple[str, float]]:
        word = answers.get((*negative, *positive))
        return [(word, math.nan)] if word else search(positive, negative, **options)

    vectors.most_similar = most_similar


@contextlib.contextmanager
def gensim_quietly() -> Iterator[None]:
    """gensim without its log and warnings; an error that says what to do if it is missing."""
    log = logging.getLogger("gensim")
    level = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except ImportError as error:
        raise EmbedxError(
            f"evaluation needs gensim, which has no build for every Python yet ({error}); use Python 3.11 to 3.13"
        ) from error
    finally:
        log.setLevel(level)


@contextlib.contextmanager
def as_file(lines: list[str]) -> Iterator[str]:
    """A temporary file of these lines, for gensim to read what we read."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "items.txt"
        file.write_text("".join(lines), encoding="utf-8", newline="\n")
        yield str(file)


# ---- comparing


def paired_difference(a: Sequence[Answers], b: Sequence[Answers], seed: int = 0) -> ScoreDifference:
    """The score of `a` minus that of `b` on one test; each side is one model, or the same one trained with several seeds.

    Only items that every model can score count. A side's score is the mean of its models' scores: for analogies the same as
    the mean over items of how often the item was answered rightly, for pairs the mean of the models' Spearman correlations
    (not the correlation of mean cosines, which would be that of an ensemble). The interval resamples items, the same ones
    for all models.
    """
    test = a[0].test
    items = np.logical_and.reduce([answers.used for answers in [*a, *b]])
    if isinstance(test, PooledPairs):
        items = np.concatenate([part & (np.count_nonzero(part) >= FEWEST) for part in test.parts(items)])
    shared = int(np.count_nonzero(items))
    if shared < FEWEST:
        return ScoreDifference(test.name, test.measure, math.nan, (math.nan, math.nan), shared)
    left, right = (bootstrap.average([test.statistic(each.values, items) for each in side]) for side in (a, b))
    statistic = bootstrap.difference(left, right)
    ends = bootstrap.interval(statistic, test.sizes(items), seed)
    return ScoreDifference(test.name, test.measure, bootstrap.point(statistic, shared), ends, shared)


def evaluate(
    model_path: str | Path,
    other_path: str | Path | None = None,
    *,
    pairs: Sequence[Path] = (),
    analogies: Path | None = None,
    candidates: int = ANALOGY_CANDIDATES,
    oov: bool = False,
    seed: int = 0,
    trust_pickle: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Score one model, or two with the difference between them, on the files given; without any, on the default tests.

    candidates  how many words, from the most frequent, analogies know and are answered with
    oov         score pairs with words outside the vocabulary too, by the n-grams of a model that has such
    seed        of the resampling; the same for both models
    trust_pickle  see `open_vectors`
    """
    if candidates < 1:
        raise EmbedxError(f"--candidates {candidates}: must be at least 1")
    progress = progress or Silent()
    tests: list[Asked] = [read_pairs(Path(path)) for path in pairs]
    if analogies is not None:
        tests.append(read_analogies(Path(analogies)))
    tests = [
        dataclasses.replace(test, candidates=candidates) if isinstance(test, Analogies) else test
        for test in tests or default_tests()
    ]
    paths = [model_path] if other_path is None else [model_path, other_path]
    models = [open_vectors(path, progress, trust_pickle) for path in paths]
    if oov and not any(getattr(each, "subwords", None) for each in models):
        raise EmbedxError(f"--oov: {' and '.join(map(str, paths))} without n-grams; train with --subwords 3-6")
    answers = [score(each, tests, progress, oov) for each in models]
    together = [pooled(each) for each in answers]
    answers = [[*each, last] if last else each for each, last in zip(answers, together, strict=True)]
    scores, notes = [], []
    for each in zip(*answers, strict=True):
        for path, answer in zip(paths, each, strict=True):
            scores.append(summary(str(path), answer, seed))
            notes += coverage(str(path), answer)
    differences = [paired_difference([a], [b], seed) for a, b in zip(*answers, strict=True)] if len(paths) == 2 else []
    return Report([str(path) for path in paths], scores, differences, notes, seed)


def summary(path: str, answers: Answers, seed: int) -> Score:
    test, used = answers.test, int(np.count_nonzero(answers.used))
    ends = (math.nan, math.nan)
    if used >= FEWEST:
        ends = bootstrap.interval(test.statistic(answers.values, answers.used), test.sizes(answers.used), seed)
    return Score(test.name, path, test.measure, answers.score, ends, used, len(test), test.candidates, answers.details)


def coverage(path: str, answers: Answers) -> list[str]:
    """A warning if the model knows too few of the words for its score to mean much."""
    used, total = int(np.count_nonzero(answers.used)), len(answers.test)
    if isinstance(answers.test, PooledPairs):
        return []  # its sets tell
    if used < FEWEST:
        return [f"{path}: nothing to score on {answers.test.name}, its vocabulary covers {used} of {total:,} items"]
    if 2 * used < total:
        return [
            f"{path}: the score on {answers.test.name} rests on {used:,} of {total:,} items, the vocabulary lacks the others"
        ]
    return []
