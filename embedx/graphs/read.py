"""Graphs in files: edge lists, from any source that `embedx train` reads text from, and matrices of
scipy and Matrix Market.

An edge list is read like text: nodes are words, which are numbered, counted and kept in the token
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

from embedx.errors import DataError, EmbedxError, Setting, SettingError, Text, counted
from embedx.graphs.graph import Edges, Graph
from embedx.graphs.settings import GraphSettings
from embedx.kernels.compiled import kernel
from embedx.labeled.array_checks import BYTES_PER_ROW, damage_reported, load_sparse
from embedx.runtime.memory import check_declared
from embedx.runtime.progress import Progress
from embedx.text import sources
from embedx.text.cells import (
    COMMENTS,
    FIRST_LINES,
    NUMBER,
    SEPARATOR_NAMES,
    WHITE_SPACE,
    cell_lines,
    separator_of,
)
from embedx.text.decompression import UnpackedReader
from embedx.text.encode import encode_sources
from embedx.text.encoded_corpus import EncodedCorpus
from embedx.text.file_kinds import TO_UTF8
from embedx.text.opening import BLOCK_BYTES
from embedx.text.settings import TextSettings
from embedx.text.sources import EDGES, Source
from embedx.text.tokenizer import END_OF_SENTENCE
from embedx.text.word_list import WordList

MATRICES = (".npz", ".mtx", ".mtx.gz")
# Minimum size of an entry of a Matrix Market file, by layout; in memory it takes 16 bytes.
MIN_BYTES_PER_ENTRY = {"coordinate": 4, "array": 2}
BYTES_PER_ENTRY = 16
# Maximum compression ratio of deflate.
MAX_GZIP_RATIO = 1032
# An edge has two nodes, and may have a weight.
MAX_COLUMNS = 3
# The third column of networkx's edge lists.
NO_ATTRIBUTES = "{}"
EDGES_PER_PART = 1 << 20
USUAL_NAMES = """
    source target from to src dst tgt dest destination origin start end head tail node vertex id
    parent child user item friend follower followee followed citing cited author paper buyer seller
    product sender receiver recipient subject object person member group
"""
# Words in common names of the columns of nodes.
COLUMN_NAMES = frozenset(USUAL_NAMES.split())
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

    edge_separator  its name; None: recognised from the first lines of each file

    Raises `EmbedxError` with file and line for a line that is no edge.
    """
    if len(files) == 1 and files[0].endswith(MATRICES):
        graph = _matrix(files[0], settings)
    else:
        for file in files:
            if file.endswith(MATRICES):
                problem = "a matrix, whose nodes are numbers of rows: it is read alone"
                raise DataError(file, None, problem, "train on it without other files")
        edge_lists = [replace(source, reader=EDGES) for source in sources.find_sources(files)]
        text = replace(AS_TEXT, edge_separator=edge_separator)
        with encode_sources(edge_lists, text, progress, cache_dir, threads) as corpus:
            edges = _EdgeList(corpus, edge_lists, settings.weighted, edge_separator)
            graph = _graph_of(edges, bool(corpus.key), settings, progress)
    for what, n in graph.left_out.items():
        consequence = "have no vector" if what.startswith("nodes") else "left out"
        progress.note(f"{what} {consequence}: {n:,}")
    return graph


def _matrix(file: str, settings: GraphSettings) -> Graph:
    """The graph of an adjacency matrix in a file."""
    try:
        if file.endswith(".npz"):
            content = "matrix of scipy.sparse.save_npz"
            with open(file, "rb") as opened, damage_reported(file, content):
                matrix = load_sparse(file, opened)
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
    except Exception as error:
        # scipy raises many kinds of errors for damaged files.
        problem = f"not a sparse matrix ({error})"
        remedy = "write one with scipy.sparse.save_npz or mmwrite"
        raise DataError(file, None, problem, remedy) from error


def _check_matrix_market(file: str) -> None:
    """Raise `DataError` if a Matrix Market file declares more entries than its size, or the free
    memory, allows.
    """
    n_rows, n_columns, n_entries, layout, _, _ = mminfo(file)
    n_bytes = os.stat(file).st_size
    if file.endswith(".gz"):
        n_bytes *= MAX_GZIP_RATIO
    if MIN_BYTES_PER_ENTRY[layout] * n_entries > n_bytes:
        problem = f"{n_entries:,} entries are declared in a file of {n_bytes:,} bytes"
        raise DataError(file, None, problem, "copy it again, or correct its header")
    need = BYTES_PER_ENTRY * n_entries + BYTES_PER_ROW * (n_rows + n_columns)
    content = f"{n_entries:,} entries of {n_rows:,} × {n_columns:,}"
    check_declared(file, need, content, "correct the header, or take a smaller graph")


@kernel
def read_edges(tokens, at, min_columns, is_comment, sources, targets, thirds, n_comments):
    """Write the edges of tokens[at:] to int32 arrays.

    Returns (number of edges, start of the next line, start of an invalid line or -1); stops at a
    line with too few or too many columns. `thirds` is -1 for an edge with two columns. Adds the
    number of comments to n_comments, int64 (1,).
    """
    n = 0
    while at < len(tokens) and n < len(sources):
        begin = at
        while at < len(tokens) and tokens[at] != END_OF_SENTENCE:
            at += 1
        n_columns = at - begin
        at += 1
        if n_columns == 0:
            continue
        if is_comment[tokens[begin]]:
            n_comments[0] += 1
            continue
        if n_columns < min_columns or n_columns > MAX_COLUMNS:
            return n, at, begin
        sources[n] = tokens[begin]
        targets[n] = tokens[begin + 1]
        thirds[n] = -1
        if n_columns == MAX_COLUMNS:
            thirds[n] = tokens[begin + 2]
        n += 1
    return n, at, -1


class _EdgeList:
    """The edges in lines of two or three cells, which are the tokens of a corpus.

    is_comment  bool (words,): lines that begin with this word are comments
    n_comments  int64 (1,): number of comments in the last pass
    """

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
        self.min_columns = MAX_COLUMNS if is_weighted else 2
        self.is_comment = np.fromiter(
            (word.startswith(COMMENTS) for word in self.words), bool, len(self.words)
        )
        self.n_comments = np.zeros(1, np.int64)
        self._buffers = np.zeros((MAX_COLUMNS, EDGES_PER_PART), np.int32)

    def parts(self, size: int = EDGES_PER_PART) -> Iterator[np.ndarray]:
        """The columns of the edges, int32 (3, n), at most `size` edges at a time; -1 for a missing
        third column.
        """
        place = 0
        self.n_comments[:] = 0
        columns = self._buffers[:, :size]
        while place < len(self.tokens):
            n, place, wrong = read_edges(
                self.tokens, place, self.min_columns, self.is_comment, *columns, self.n_comments
            )
            if wrong >= 0:
                raise self._wrong_line(self.words.at(self.tokens[wrong : place - 1]))
            yield columns[:, :n]

    def _wrong_line(self, cells: list[str]) -> DataError:
        """The error for a line of too few or too many columns."""
        weight = " and a weight" if self.min_columns == MAX_COLUMNS else ""
        return self.refused(
            cells,
            f"{counted(len(cells), 'column')} where an edge has {self.min_columns}",
            f"give two nodes{weight}; where names hold blanks, separate columns by commas or tabs,"
            " or put the names into quotes",
        )

    def check_columns(self) -> None:
        """Raise `DataError` if only some lines have a third column."""
        first: np.ndarray | None = None
        for part in self.parts():
            has_third = part[2] >= 0
            if first is None:
                first = has_third[:1]
            for edge in part.T[has_third != first]:
                cells = self.words.at(edge[edge >= 0])
                other = 2 + int(first[0])
                raise self.refused(
                    cells,
                    f"{counted(len(cells), 'column')}, and {other} in the lines before",
                    "give an edge a line, with as many columns in each",
                )

    def check_third_column(self) -> None:
        """Raise `DataError` if columns are separated by blanks and the third one is text: names of
        nodes then probably contain blanks.
        """
        head = next(self.parts(FIRST_LINES), np.zeros((MAX_COLUMNS, 0), np.int32))
        lines = [self.words.at(edge) for edge in head.T if edge[2] >= 0]
        texts = [line for line in lines if not _is_no_name(line[2])]
        if texts and self._are_of_blanks():
            raise self.refused(
                texts[0],
                f'three columns between blanks, of which the third, "{texts[0][2]}", is no weight',
                (
                    "where names hold blanks, separate columns by commas or tabs, or put the names"
                    " into quotes; ",
                    Setting("edge_separator", "blank"),
                    " leaves out the third column",
                ),
            )

    def _are_of_blanks(self) -> bool:
        """Whether the separator of the first file was recognised as white space."""
        source = self.sources[0]
        if self.separator is not None or source.fingerprint is None:
            return False
        with UnpackedReader(source) as file:
            return separator_of(file.read(BLOCK_BYTES)) == WHITE_SPACE

    def refused(self, cells: list[str], problem: str, remedy: Text) -> DataError:
        """The error for the line with these cells, with its file and number; without a number for
        standard input, which can be read only once.
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
        """Take a heading, in each file, for a comment; the number of headings."""
        head = next(self.parts(FIRST_LINES), np.zeros((MAX_COLUMNS, 0), np.int32))
        lines = [self.words.at(edge[edge >= 0]) for edge in head.T]
        if len(lines) < 2:
            return 0
        # The words of a heading are in no other line.
        are_rare = (self.counts[head[:2, 0]] <= len(self.sources)).all()
        names_columns = are_rare and _names_columns(lines[0])
        if not names_columns and not _differs_in_numbers(*lines):
            return 0
        name = self.sources[0].name
        progress.note(f"{name}: its first line is taken as a heading, and left out")
        self.is_comment[head[0, 0]] = True
        return int(self.counts[head[0, 0]])


def _differs_in_numbers(first: list[str], *others: list[str]) -> bool:
    """Whether other lines have numbers where the first has none: as weight, or as both nodes."""
    if len(first) == MAX_COLUMNS and not _is_number(first[2]):
        return all(len(line) == MAX_COLUMNS and not math.isnan(_number(line[2])) for line in others)
    nodes = [node for line in others for node in line[:2]]
    return all(map(str.isdecimal, nodes)) and not any(map(str.isdecimal, first))


def _names_columns(cells: list[str]) -> bool:
    """Whether both nodes are common names of columns, such as `source` and `TargetCity`."""
    parts = [{part.lower() for part in NAME_PART.findall(cell)} for cell in cells[:2]]
    return all(words & COLUMN_NAMES for words in parts)


def _graph_of(
    edges: _EdgeList, is_kept: bool, settings: GraphSettings, progress: Progress
) -> Graph:
    """The graph of an edge list.

    is_kept  whether its words stay on disk after the corpus is closed
    """
    words = edges.words
    n_headings = edges.leave_out_heading(progress)
    is_node, is_third, n_thirds = _columns_of_words(edges)
    if not is_node.any():
        raise DataError(edges.sources[0].name, None, "no edges", "give two nodes per line")
    edges.check_columns()
    if n_thirds and not settings.weighted:
        edges.check_third_column()
    _note_left_out(int(edges.n_comments[0]) - n_headings, n_thirds, settings, progress)

    weight_of_word = np.zeros(0, np.float32)
    if settings.weighted:
        weight_of_word = _weights(edges, is_third)
    node_of_word = (np.cumsum(is_node) - 1).astype(np.int32)
    names = words
    if not (is_node.all() and is_kept):
        names = WordList.of(words.at(np.flatnonzero(is_node)))

    def numbered() -> Iterator[Edges]:
        """The edges, with the numbers of their nodes."""
        for first_words, second_words, third_words in edges.parts():
            weights = weight_of_word
            if settings.weighted:
                weights = weight_of_word[third_words]
            yield node_of_word[first_words], node_of_word[second_words], weights

    return Graph.of_parts(names, numbered, settings.weighted, settings.directed)


def _columns_of_words(edges: _EdgeList) -> tuple[np.ndarray, np.ndarray, int]:
    """Which words are nodes and which are in the third column, both bool (words,), and the number
    of edges with a third column.
    """
    is_node = np.zeros(len(edges.words), bool)
    is_third = np.zeros(len(edges.words), bool)
    n_thirds = 0
    for part in edges.parts():
        is_node[part[:2]] = True
        thirds = part[2][part[2] >= 0]
        is_third[thirds] = True
        n_thirds += len(thirds)
    return is_node, is_third, n_thirds


def _note_left_out(
    n_comments: int, n_thirds: int, settings: GraphSettings, progress: Progress
) -> None:
    """Note the comments, and a third column that is not used."""
    if n_comments:
        progress.note(f"left out: {counted(n_comments, 'comment')}, after #, % or //")
    if n_thirds and not settings.weighted:
        progress.note(
            f"the third column of {counted(n_thirds, 'edge')} is not used; ",
            Setting("weighted", True),
            " takes it as weights",
        )


def _weights(edges: _EdgeList, is_third: np.ndarray) -> np.ndarray:
    """The weight of each word of the third column, float32 (words,); 0 for other words. Raises
    `DataError` for a word that is no weight.
    """
    weights = np.zeros(len(edges.words), np.float32)
    weights[is_third] = [_number(word) for word in edges.words.at(np.flatnonzero(is_third))]
    is_wrong = is_third & ~(np.isfinite(weights) & (weights >= 0))
    if not is_wrong.any():
        return weights
    for part in edges.parts():
        for edge in part.T[is_wrong[part[2]]]:
            line = edges.words.at(edge)
            remedy = "give a number of 0 or more, with a decimal point"
            raise edges.refused(line, f"weight {line[2]}", remedy)
    return weights


def _is_number(word: str) -> bool:
    """Whether a word is a number, which `nan` is too."""
    return word.strip().lower().lstrip("+-") == "nan" or not math.isnan(_number(word))


def _is_no_name(cell: str) -> bool:
    """Whether a third cell is not part of a name: a number, perhaps with a decimal comma, or
    networkx's mark for no attributes.
    """
    is_decimal = NUMBER.fullmatch(cell.encode()) is not None
    return is_decimal or _is_number(cell) or cell == NO_ATTRIBUTES


def _number(word: str) -> float:
    """A word as a number; NaN if it is none."""
    try:
        return float(word)
    except ValueError:
        return math.nan


def node_types(file: str, names: Sequence[str]) -> list[str | None]:
    """The type of each node, from lines of a node and its type; None for a node not in the file."""
    types: dict[str, str] = {}
    try:
        with open(file, encoding="utf-8-sig") as lines:
            text = lines.read().encode()
    except UnicodeDecodeError as error:
        raise SettingError("node_types", file, "not UTF-8", TO_UTF8) from error
    except OSError as error:
        raise SettingError("node_types", file, str(error.strerror), "give a text file") from error
    for number, cells in cell_lines([text], file):
        if len(cells) != 2:
            problem = f"{counted(len(cells), 'column')} where a node and its type are expected"
            remedy = "separate both by a blank, tab or comma; put names with blanks into quotes"
            raise DataError(file, number, problem, remedy)
        node, node_type = cells
        types[node] = node_type
    return [types.get(name) for name in names]
