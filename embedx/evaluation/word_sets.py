"""Test sets of word vectors, and the files they are read from.

    pairs        word TAB word TAB score, with a point or a comma in it; further columns and a first
                 line with the names of the columns are ignored. The score is the first number
                 after the words, as some sets have the part of speech before it
    questions    four words a line, a : b = c : d, with `: name` before each section

Between fields stand tabs, semicolons, commas or spaces. Files may begin with a byte order mark, end
lines with CR LF, lack the last line's end, and be compressed; blank lines and those that begin with
`#` do not count.
"""

import dataclasses
import math
import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy import ndarray

from embedx.errors import DataError, Setting, SettingError, Text, choice, counted, no_such
from embedx.evaluation import statistics
from embedx.labeled.files import Lines, source_of
from embedx.labeled.ids import decoded
from embedx.runtime.progress import Silent

# `restrict_vocab` of word pairs: gensim's default, which it has for analogies, too.
RESTRICT_VOCAB_OF_PAIRS = 300_000
# `restrict_vocab` of analogies: what users of word2vec.c compare.
RESTRICT_VOCAB_OF_ANALOGIES = 30_000
# By the name of a protocol, the `restrict_vocab` of analogies.
PROTOCOLS = {"embedx": RESTRICT_VOCAB_OF_ANALOGIES, "gensim": RESTRICT_VOCAB_OF_PAIRS}
# Bytes of text; Google's analogies are 600,000.
MAX_BYTES = 1 << 23
# With fewer items there is no correlation to speak of.
MIN_ITEMS = 3
METHODS = ("3cosadd", "3cosmul")
LINE_OF_PAIR = "tiger TAB cat TAB 7.35"
LINE_OF_QUESTION = "Athens Greece Oslo Norway"


@dataclasses.dataclass(frozen=True, eq=False)
class SimilarityPairs:
    """A list of word pairs with a human score of their similarity.

    gold   float64 (items,)
    sizes  of the sets that it pools, whose items follow each other; empty if it pools none
    """

    name: str
    words: list[tuple[str, str]]
    gold: ndarray
    sizes: tuple[int, ...] = ()
    restrict_vocab: ClassVar[int] = RESTRICT_VOCAB_OF_PAIRS
    measure: ClassVar[str] = "spearman"

    def __len__(self) -> int:
        return len(self.words)

    def divided(self, items: ndarray) -> list[ndarray]:
        """`items`, bool or float (items,), divided into those of each set that is pooled."""
        return np.split(items, np.cumsum(self.sizes[:-1], dtype=np.int64))


@dataclasses.dataclass(frozen=True, eq=False)
class Analogies:
    """A list of questions: a is to b as c is to d.

    sections  the section of each question
    words     the four words of each question
    """

    name: str
    sections: list[str]
    words: list[tuple[str, ...]]
    restrict_vocab: int = RESTRICT_VOCAB_OF_ANALOGIES
    method: str = METHODS[0]
    measure: ClassVar[str] = "accuracy"

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def clusters(self) -> ndarray:
        """int64 (2, items): the two pairs of words of each question. Questions with one in common
        depend on each other.
        """
        number: dict[tuple[str, ...], int] = {}
        questions = [tuple(map(str.upper, words)) for words in self.words]
        first_pairs = [number.setdefault(words[:2], len(number)) for words in questions]
        second_pairs = [number.setdefault(words[2:], len(number)) for words in questions]
        return np.array([first_pairs, second_pairs])


TestSet = SimilarityPairs | Analogies


@dataclasses.dataclass(frozen=True, eq=False)
class ItemScores:
    """The scores of one model on one test set, by item.

    values   float64 (items,): the cosine, or 1 for a correct answer and 0 for a wrong one; NaN for
             an item with an unknown word, which is left out
    details  further measures
    """

    test: TestSet
    values: ndarray
    details: dict[str, Any] = dataclasses.field(default_factory=dict)

    @cached_property
    def score(self) -> float:
        """Spearman's correlation, or the mean of the values; NaN if there are too few."""
        if np.count_nonzero(self.used) < MIN_ITEMS:
            return math.nan
        return self.scored(resamples=1).value

    @property
    def used(self) -> ndarray:
        """bool (items,): the items that are not left out."""
        return ~np.isnan(self.values)

    def scored(
        self, items: ndarray | None = None, seed: int = 0, resamples: int = statistics.RESAMPLES
    ) -> statistics.Score:
        """The score of some items, bool (items,), by default all used; of a set of pairs MIN_ITEMS
        or none.
        """
        if items is None:
            items = self.used
        test = self.test
        if isinstance(test, Analogies):
            return statistics.grouped(self.values[items], test.clusters[:, items])
        scored_sets = []
        for gold, values, chosen in zip(
            test.divided(test.gold), test.divided(self.values), test.divided(items), strict=True
        ):
            if chosen.any():
                scored_sets.append((gold[chosen], values[chosen]))
        sizes = [len(gold) for gold, _ in scored_sets]
        return statistics.resampled(statistics.mean_spearman(scored_sets), sizes, seed, resamples)


def folded(words: Sequence[str]) -> dict[str, str]:
    """The first word for each upper-case form, as gensim folds case."""
    return {word.upper(): word for word in reversed(words)}


# ---- reading


@dataclasses.dataclass(frozen=True)
class WordTests:
    """Files of test sets, and how they are scored. Raises `SettingError` for an unknown protocol or
    method.

    restrict_vocab  number of the most frequent words that may answer analogies; by default the
                    protocol's
    seed            of the resampling
    """

    pairs: Sequence[Path] = ()
    analogies: Path | None = None
    protocol: str = "embedx"
    method: str = METHODS[0]
    restrict_vocab: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS:
            raise SettingError("protocol", self.protocol, choice(self.protocol, PROTOCOLS))
        if self.method not in METHODS:
            raise SettingError("method", self.method, choice(self.method, METHODS))

    def read(self) -> list[TestSet]:
        """The test sets, the default ones if no file is given."""
        return self.read_files() or [self._with_settings(test) for test in default_tests()]

    def read_files(self) -> list[TestSet]:
        """The test sets of the files."""
        tests: list[TestSet] = [read_pairs(Path(path)) for path in self.pairs]
        if self.analogies is not None:
            tests.append(read_analogies(Path(self.analogies)))
        return [self._with_settings(test) for test in tests]

    def _with_settings(self, test: TestSet) -> TestSet:
        """The test set; analogies with these settings, and a name that tells the method."""
        if not isinstance(test, Analogies):
            return test
        name = test.name
        if self.method != METHODS[0]:
            name += f" ({self.method})"
        n_words = self.restrict_vocab or PROTOCOLS[self.protocol]
        return dataclasses.replace(test, name=name, method=self.method, restrict_vocab=n_words)


def default_tests() -> list[TestSet]:
    """WordSim-353, SimLex-999 and Google's analogies, from gensim's package."""
    gensim = find_spec("gensim")  # an import would take seconds
    if gensim is None or gensim.origin is None:
        install = "pip install gensim, which needs Python 3.11 to 3.13"
        by_name = (", or name test sets by ", Setting("pairs"), " or ", Setting("analogies"))
        problem = "they come with gensim, which is not installed"
        raise DataError("the default test sets", None, problem, (install, by_name))
    folder = Path(gensim.origin).parent / "test" / "test_data"
    return [
        read_pairs(folder / "wordsim353.tsv", "WordSim-353"),
        read_pairs(folder / "simlex999.txt", "SimLex-999"),
        read_analogies(folder / "questions-words.txt", "Google analogies"),
    ]


def read_pairs(path: Path, name: str | None = None) -> SimilarityPairs:
    """The pairs in a file of `word TAB word TAB score`, or the same between other delimiters."""
    words = []
    gold = []
    column = None
    for order, (where, line) in enumerate(lines_of(path)):
        fields = fields_of(line, 3)
        if column is None:
            column = score_column(fields)
        if column is None and order == 0 and len(fields) > 2:
            continue  # the names of the columns
        score = None if column is None else number_in(fields, column)
        if score is None:
            raise DataError(where, None, "not a pair with its score", _remedy_for_no_pair(line))
        a, b = fields[:2]
        if not (a and b and math.isfinite(score)):
            problem = "a word is missing or the score is not finite"
            raise DataError(where, None, problem, "fix or delete the line")
        words.append((a, b))
        gold.append(score)
    if not words:
        raise DataError(path, None, "holds no pairs", f"write lines such as `{LINE_OF_PAIR}`")
    return SimilarityPairs(name or path.stem, words, np.array(gold))


def score_column(fields: Sequence[str]) -> int | None:
    """The index of the score in the fields of a pair: the first number after the words."""
    columns = (column for column in range(2, len(fields)) if number_in(fields, column) is not None)
    return next(columns, None)


def number_in(fields: Sequence[str], column: int) -> float | None:
    """The number in a field, with a point or a comma; None if there is none."""
    try:
        return float(fields[column].replace(",", "."))
    except (IndexError, ValueError):
        return None


def _remedy_for_no_pair(line: str) -> Text:
    if is_question(line):
        return ("give analogies by ", Setting("analogies"))
    return f"write it as `{LINE_OF_PAIR}`"


def is_question(line: str) -> bool:
    """Whether a line is a question of analogies, or the heading of a section of them."""
    return line.startswith(":") or len(fields_of(line, 4)) == 4


def read_analogies(
    path: Path, name: str | None = None, restrict_vocab: int = RESTRICT_VOCAB_OF_ANALOGIES
) -> Analogies:
    """The questions in a file of four words a line, with `: name` before each section."""
    section = "all"
    sections = []
    words: list[tuple[str, ...]] = []
    for where, line in lines_of(path):
        if line.startswith(":"):
            section = line[1:].strip() or "all"
            continue
        fields = fields_of(line, 4)
        # A word with a comma in it is no list.
        question = tuple(fields if len(fields) == 4 else line.split())
        if len(question) != 4:
            problem = f"a question of {counted(len(question), 'word')}"
            raise DataError(where, None, problem, _remedy_for_no_question(line))
        sections.append(section)
        words.append(question)
    if not words:
        raise DataError(
            path, None, "holds no questions", f"write lines such as `{LINE_OF_QUESTION}`"
        )
    return Analogies(name or path.stem, sections, words, restrict_vocab)


def _remedy_for_no_question(line: str) -> Text:
    if score_column(fields_of(line, 3)) is not None:
        return ("give word pairs with scores by ", Setting("pairs"))
    return f"write four, such as `{LINE_OF_QUESTION}`"


def fields_of(line: str, n: int) -> list[str]:
    """The fields of a line, without quotation marks around them.

    They stand between tabs if there are n, else between semicolons, commas or spaces, in this
    order.
    """
    for separator in ("\t", ";", ","):
        fields = [field.strip() for field in line.split(separator)]
        if len(fields) >= n:
            return [unquoted(field) for field in fields]
    return line.split()


def unquoted(field: str) -> str:
    """A field without quotation marks around it."""
    is_quoted = len(field) > 1 and field[0] == field[-1] == '"'
    return field[1:-1] if is_quoted else field


def lines_of(path: Path) -> Iterator[tuple[str, str]]:
    """(file:line, text) of each line that is neither blank nor a `#` comment."""
    if not os.path.exists(path):
        raise no_such("file", path)
    n_bytes = 0
    lines = Lines(source_of(str(path)), Silent())
    for chunk in lines:
        n_bytes += len(chunk)
        if n_bytes > MAX_BYTES:
            problem = f"more than {MAX_BYTES:,} bytes of text"
            remedy = "check that it is the right file, or give a part of it"
            raise DataError(path, None, problem, remedy)
        for place, line in enumerate(decoded(lines, chunk).split("\n")[:-1], lines.chunk_line):
            if line.strip() and not line.startswith("#"):
                yield f"{path}:{place}", line.strip("\r\n")
