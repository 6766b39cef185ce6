"""Graphs in files: lists of edges, in whatever `embedx train` reads text from, and matrices of
scipy and Matrix Market.

An edge list is read as text is: the nodes are its words, numbered, counted and kept in the token
cache, and an edge is a line.
"""

import math
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.io import mminfo, mmread

from embedx.errors import DataError, EmbedxError, Setting, SettingError
from embedx.graphs.graph import Graph
from embedx.graphs.settings import GraphSettings
from embedx.kernels.compiled import kernel
from embedx.labeled.arrays import BYTES_PER_ROW, sparse_in
from embedx.runtime.memory import check_declared
from embedx.runtime.progress import Progress
from embedx.text import sources
from embedx.text.cells import COMMENTS, FIRST_LINES, SEPARATOR_NAMES, cell_lines
from embedx.text.decompression import UnpackedReader
from embedx.text.encode import encode_sources
from embedx.text.encoded_corpus import EncodedCorpus
from embedx.text.opening import BLOCK_BYTES
from embedx.text.settings import TextSettings
from embedx.text.sources import EDGES, Source
from embedx.text.tokenizer import END_OF_SENTENCE
from embedx.text.word_list import WordList

MATRICES = (".npz", ".mtx", ".mtx.gz")
BYTES_PER_ENTRY_AS_TEXT = {"coordinate": 4, "array": 2}  # of Matrix Market, at least
BYTES_PER_ENTRY = 16  # of a matrix in memory
MAX_GZIP_RATIO = 1032  # of deflate
COLUMNS = 3  # of an edge, at most
PART = 1 << 20  # edges that are taken at a time
# Words in usual names of the columns of nodes
COLUMN_NAMES = frozenset(
    (
        *("source", "target", "from", "to", "src", "dst", "tgt", "dest", "destination", "origin"),
        *(
            "start",
            "end",
            "head",
            "tail",
            "node",
            "vertex",
            "id",
            "parent",
            "child",
            "user",
            "item",
        ),
        *("friend", "follower", "followee", "followed", "citing", "cited", "author", "paper"),
        *("buyer", "seller", "product", "sender", "receiver", "recipient", "subject", "object"),
        *("person", "member", "group"),
    )
)
NAME_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
AS_TEXT = TextSettings(on_bad_utf8="error")


def read_graph(
    files: Sequence[str],
    settings: GraphSettings,
    progress: Progress,
    cache_dir: Path | None,
    threads: int,
    edge_separator: str | None = None,
) -> Graph:
    """The graph in files.

    edge_separator  its name; None: recognised by the first lines of each file

    Raises `EmbedxError`, which names file and line, for what is no edge.
    """
    if len(files) == 1 and files[0].endswith(MATRICES):
        graph = _matrix(files[0], settings)
    else:
        found = [replace(each, reader=EDGES) for each in sources.resolve(files)]
        text = replace(AS_TEXT, edge_separator=edge_separator)
        with encode_sources(found, text, progress, cache_dir, threads) as corpus:
            graph = _edges(corpus, found, settings, progress, edge_separator)
    for what, n in graph.left_out.items():
        progress.note(
            f"{n:,} {what} {'have no vector' if what.startswith('nodes') else 'left out'}"
        )
    return graph


def _matrix(file: str, settings: GraphSettings) -> Graph:
    try:
        if file.endswith(".npz"):
            with open(file, "rb") as opened:
                matrix = sparse_in(file, opened)
        else:
            _check_matrix_market(file)
            matrix = mmread(file)
        return Graph.from_scipy(matrix, weighted=settings.weighted, directed=settings.directed)
    except EmbedxError as error:
        if isinstance(error, DataError) and error.file == file:
            raise
        raise DataError(file, None, error.parts) from error
    except MemoryError:
        raise
    except Exception as error:  # scipy raises what it likes, given the bytes
        raise DataError(
            file,
            None,
            f"not a sparse matrix ({error})",
            "write one with scipy.sparse.save_npz or mmwrite",
        ) from error


def _check_matrix_market(file: str) -> None:
    """Raise `DataError` where a Matrix Market file declares more entries than its bytes can hold,
    or than memory.
    """
    n_rows, n_columns, n_entries, layout, _, _ = mminfo(file)
    n_bytes = os.stat(file).st_size * (MAX_GZIP_RATIO if file.endswith(".gz") else 1)
    least = BYTES_PER_ENTRY_AS_TEXT[layout] * n_entries
    if least > n_bytes:
        problem = f"{n_entries:,} entries are declared in a file of {n_bytes:,} bytes"
        raise DataError(file, None, problem, "copy it again, or correct its header")
    need = BYTES_PER_ENTRY * n_entries + BYTES_PER_ROW * (n_rows + n_columns)
    what = f"{n_entries:,} entries of {n_rows:,} × {n_columns:,}"
    check_declared(file, need, what, "correct the header, or take a smaller graph")


@kernel
def read_edges(tokens, at, wanted, is_comment, sources, targets, thirds, n_comments):
    """Write the edges from tokens[at:] to int32 arrays. Returns their number, where the next line
    begins, and where a line of too few or too many columns does, which ends them, or -1. A third
    column that is not there is -1. Adds the comments to n_comments, int64 (1,)."""
    n = 0
    while at < len(tokens) and n < len(sources):
        begin = at
        while at < len(tokens) and tokens[at] != END_OF_SENTENCE:
            at += 1
        at += 1
        size = at - 1 - begin
        if size > 0 and is_comment[tokens[begin]]:
            n_comments[0] += 1
        elif size > 0:
            if size < wanted or size > COLUMNS:
                return n, at, begin
            sources[n], targets[n] = tokens[begin], tokens[begin + 1]
            thirds[n] = tokens[begin + 2] if size == COLUMNS else -1
            n += 1
    return n, at, -1


class _EdgeList:
    """The edges in lines of two or three cells, which are the tokens of a corpus."""

    def __init__(
        self,
        corpus: EncodedCorpus,
        sources: Sequence[Source],
        is_weighted: bool,
        separator: str | None,
    ) -> None:
        self.separator = None if separator is None else SEPARATOR_NAMES[separator]
        self.words = corpus.words
        self.counts = corpus.counts
        self.tokens = corpus.tokens
        self.sources = sources
        self.n_columns = COLUMNS if is_weighted else 2
        self.is_comment = np.fromiter(
            (word.startswith(COMMENTS) for word in self.words), bool, len(self.words)
        )
        self.n_comments = np.zeros(1, np.int64)  # in the parts that were gone through last
        self._buffers = np.zeros((COLUMNS, PART), np.int32)

    def parts(self, size: int = PART) -> Iterator[np.ndarray]:
        """The columns of the edges, int32 (3, n), a part of at most `size` edges at a time; -1
        where there is no third column.
        """
        place = 0
        self.n_comments[:] = 0
        columns = self._buffers[:, :size]
        while place < len(self.tokens):
            n, place, wrong = read_edges(
                self.tokens, place, self.n_columns, self.is_comment, *columns, self.n_comments
            )
            if wrong >= 0:
                raise self._wrong_line(self.words.at(self.tokens[wrong : place - 1]))
            yield columns[:, :n]

    def _wrong_line(self, cells: list[str]) -> DataError:
        weight = " and a weight" if self.n_columns == COLUMNS else ""
        return self.refused(
            cells,
            f"{len(cells)} columns where an edge has {self.n_columns}",
            f"give two nodes{weight}; where names hold blanks, separate columns by commas or tabs,"
            " or put the names into quotes",
        )

    def refused(self, cells: list[str], problem: str, remedy: str) -> DataError:
        """What is wrong with the line of these cells, with its file and number; lines of standard
        input have none, since it is read once.
        """
        for source in self.sources:
            if source.fingerprint is None:
                continue
            with UnpackedReader(source) as file:
                blocks = iter(lambda: file.read(BLOCK_BYTES), b"")
                for number, others in cell_lines(blocks, "", self.separator):
                    if others == cells:
                        return DataError(source.name, number, problem, remedy)
        return DataError(self.sources[0].name, None, f"{' '.join(cells)!r}: {problem}", remedy)

    def leave_out_heading(self, progress: Progress) -> int:
        """Make a comment of a first line that names the columns, in each file; how many there
        are.
        """
        head = next(self.parts(FIRST_LINES), np.zeros((COLUMNS, 0), np.int32))
        lines = [self.words.at(edge[edge >= 0]) for edge in head.T]
        if len(lines) < 2:
            return 0
        is_rare = (self.counts[head[:2, 0]] <= len(self.sources)).all()
        if not (_differs_in_numbers(*lines) or (is_rare and _names_columns(lines[0]))):
            return 0
        name = self.sources[0].name
        progress.note(f"{name}: its first line is taken as a heading, and left out")
        self.is_comment[head[0, 0]] = True
        return int(self.counts[head[0, 0]])


def _differs_in_numbers(first: list[str], *others: list[str]) -> bool:
    """Whether other lines have numbers where the first has none: as weight, or as both nodes."""
    if len(first) == COLUMNS and not _is_number(first[2]):
        thirds = [_number(line[2]) if len(line) == COLUMNS else math.nan for line in others]
        return not any(map(math.isnan, thirds))
    nodes = [node for line in others for node in line[:2]]
    return all(map(str.isdecimal, nodes)) and not any(map(str.isdecimal, first))


def _names_columns(cells: list[str]) -> bool:
    """Whether both nodes are usual names of columns, such as `source` and `TargetCity`."""
    parts = [{part.lower() for part in NAME_PART.findall(cell)} for cell in cells[:2]]
    return all(words & COLUMN_NAMES for words in parts)


def _edges(
    corpus: EncodedCorpus,
    found: Sequence[Source],
    settings: GraphSettings,
    progress: Progress,
    edge_separator: str | None,
) -> Graph:
    """The graph of lines of two or three columns, from their tokens, which are gone through a part
    at a time.
    """
    words = corpus.words
    edges = _EdgeList(corpus, found, settings.weighted, edge_separator)
    n_headings = edges.leave_out_heading(progress)
    is_node = np.zeros(len(words), bool)
    is_third = np.zeros(len(words), bool)
    n_thirds = 0
    for part in edges.parts():
        is_node[part[:2]] = True
        thirds = part[2][part[2] >= 0]
        is_third[thirds] = True
        n_thirds += len(thirds)
    if not is_node.any():
        raise DataError(found[0].name, None, "no edges", "give two nodes per line")
    if n_comments := int(edges.n_comments[0]) - n_headings:
        progress.note(f"{n_comments:,} lines that begin with #, % or // left out")
    if n_thirds and not settings.weighted:
        progress.note(
            f"the third column of {n_thirds:,} edges is not used; ",
            Setting("weighted", True),
            " takes it as weights",
        )
    # by word
    weights = _weights(edges, is_third) if settings.weighted else np.zeros(0, np.float32)
    numbers = (np.cumsum(is_node) - 1).astype(np.int32)
    names = (
        words if is_node.all() and corpus.key else WordList.of(words.at(np.flatnonzero(is_node)))
    )
    return Graph.of_parts(
        names,
        lambda: (
            (numbers[a], numbers[b], weights[c] if len(weights) else weights)
            for a, b, c in edges.parts()
        ),
        settings.weighted,
        settings.directed,
    )


def _weights(edges: _EdgeList, is_third: np.ndarray) -> np.ndarray:
    """The weight that each word is, float32 (words,), 0 for words that are not in the third
    column. Raises `DataError` for one that is no weight.
    """
    weights = np.zeros(len(edges.words), np.float32)
    weights[is_third] = [_number(word) for word in edges.words.at(np.flatnonzero(is_third))]
    is_wrong = is_third & ~(np.isfinite(weights) & (weights >= 0))
    for part in edges.parts() if is_wrong.any() else ():
        for edge in part.T[is_wrong[part[2]]]:
            line = edges.words.at(edge)
            raise edges.refused(line, f"weight {line[2]}", "it must be a number of 0 or more")
    return weights


def _is_number(word: str) -> bool:
    """Whether a word is a number, which `nan` is too."""
    return word.strip().lower().lstrip("+-") == "nan" or not math.isnan(_number(word))


def _number(word: str) -> float:
    """The number that a word is; NaN if it is none."""
    try:
        return float(word)
    except ValueError:
        return math.nan


def node_types(file: str, names: Sequence[str]) -> list[str | None]:
    """The type of each node, from lines of a node and its type; None for a node that the file does
    not have.
    """
    types: dict[str, str] = {}
    try:
        with open(file, encoding="utf-8-sig") as lines:
            text = lines.read().encode()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8"
        raise SettingError("node_types", file, reason, "give a text file") from error
    for number, cells in cell_lines([text], file):
        if len(cells) != 2:
            raise DataError(
                file,
                number,
                f"{len(cells)} columns where a node and its type are expected",
                "separate both by a blank, tab or comma; put names with blanks into quotes",
            )
        types[cells[0]] = cells[1]
    return [types.get(name) for name in names]
