"""Graphs in files: lists of edges, in whatever `embedx train` reads text from, and matrices of
scipy and Matrix Market.

An edge list is read as text is: the nodes are its words, numbered, counted and kept in the token
cache, and an edge is a line.
"""

import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.io import mmread
from scipy.sparse import load_npz

from embedx.errors import EmbedxError
from embedx.graphs.graph import Graph
from embedx.graphs.settings import GraphSettings
from embedx.kernels.compiled import kernel
from embedx.text import cache, sources
from embedx.text.encoded_corpus import EncodedCorpus
from embedx.text.settings import TextSettings
from embedx.text.sources import EDGES, Source
from embedx.text.streams import UnpackedReader
from embedx.text.tokenizer import END_OF_SENTENCE
from embedx.text.word_list import WordList
from embedx.training.progress import Progress

MATRICES = (".npz", ".mtx", ".mtx.gz")
COMMENTS = ("#", "%", "//")
COLUMNS = 3  # of an edge, at most
PART = 1 << 20  # edges that are taken at a time
LOOKED_AT = 50  # lines, to tell a heading
AS_TEXT = TextSettings(on_bad_utf8="error")


def read_graph(
    files: Sequence[str],
    settings: GraphSettings,
    progress: Progress,
    cache_dir: Path | None,
    threads: int,
) -> Graph:
    """The graph in files. Raises `EmbedxError`, which names file and line, for what is no edge."""
    if len(files) == 1 and files[0].endswith(MATRICES):
        graph = _matrix(files[0], settings)
    else:
        found = [replace(each, reader=EDGES) for each in sources.resolve(files)]
        with cache.encode(found, AS_TEXT, progress, cache_dir, threads) as corpus:
            graph = _edges(corpus, found, settings, progress)
    for what, n in graph.left_out.items():
        progress.note(
            f"{n:,} {what} {'have no vector' if what.startswith('nodes') else 'left out'}"
        )
    return graph


def _matrix(file: str, settings: GraphSettings) -> Graph:
    try:
        matrix = load_npz(file) if file.endswith(".npz") else mmread(file)
        return Graph.from_scipy(matrix, weighted=settings.weighted, directed=settings.directed)
    except EmbedxError as error:
        raise EmbedxError(f"{file}: {error}") from error
    except MemoryError:
        raise
    except Exception as error:  # scipy raises what it likes, given the bytes
        raise EmbedxError(
            f"{file}: not a sparse matrix ({error}); write one with scipy.sparse.save_npz or"
            " mmwrite"
        ) from error


@kernel
def read_edges(tokens, at, wanted, is_comment, sources, targets, thirds):
    """Write the edges from tokens[at:] to int32 arrays. Returns their number, where the next line
    begins, and where a line of too few or too many columns does, which ends them, or -1. A third
    column that is not there is -1."""
    n = 0
    while at < len(tokens) and n < len(sources):
        begin = at
        while at < len(tokens) and tokens[at] != END_OF_SENTENCE:
            at += 1
        at += 1
        size = at - 1 - begin
        if size > 0 and not is_comment[tokens[begin]]:
            if size < wanted or size > COLUMNS:
                return n, at, begin
            sources[n], targets[n] = tokens[begin], tokens[begin + 1]
            thirds[n] = tokens[begin + 2] if size == COLUMNS else -1
            n += 1
    return n, at, -1


def _edges(
    corpus: EncodedCorpus, found: Sequence[Source], settings: GraphSettings, progress: Progress
) -> Graph:
    """The graph of lines of two or three columns, from their tokens, which are gone through a part
    at a time.
    """
    words, tokens, wanted = corpus.words, corpus.tokens, COLUMNS if settings.weighted else 2
    is_comment = np.fromiter((word.startswith(COMMENTS) for word in words), bool, len(words))
    buffers = np.zeros((COLUMNS, PART), np.int32)

    def columns(begin: int, size: int) -> Iterator[np.ndarray]:
        """The columns of all lines from a place on."""
        while begin < len(tokens):
            n, begin, wrong = read_edges(tokens, begin, wanted, is_comment, *buffers[:, :size])
            if wrong >= 0:
                line = words.at(tokens[wrong : begin - 1])
                why = f"{len(line)} columns where an edge has {wanted}"
                raise _refused(
                    found,
                    line,
                    f"{why}; give two nodes{' and a weight' * settings.weighted} without blanks",
                )
            yield buffers[:, :n]

    head = next(columns(0, LOOKED_AT), buffers[:, :0])
    lines = [words.at(each[each >= 0]) for each in head.T]
    begin = 0
    if len(lines) > 1 and _is_heading(*lines, wanted=wanted):
        progress.note(f"{found[0].name}: its first line is taken as a heading, and left out")
        begin = read_edges(tokens, 0, 2, is_comment, *buffers[:, :1])[1]
    is_node, is_third, n_thirds = np.zeros(len(words), bool), np.zeros(len(words), bool), 0
    for part in columns(begin, PART):
        is_node[part[:2]] = True
        thirds = part[2][part[2] >= 0]
        is_third[thirds] = True
        n_thirds += len(thirds)
    if not is_node.any():
        raise EmbedxError(f"{found[0].name}: no edges; give two nodes per line")
    if n_thirds and not settings.weighted:
        progress.note(
            f"the third column of {n_thirds:,} edges is not used; --weighted takes it as weights"
        )
    weights = np.zeros(len(words) if settings.weighted else 0, np.float32)  # by word
    if settings.weighted:
        weights[is_third] = [_number(word) for word in words.at(np.flatnonzero(is_third))]
        is_wrong = is_third & ~(np.isfinite(weights) & (weights >= 0))
        for part in columns(begin, PART) if is_wrong.any() else ():
            for edge in part.T[is_wrong[part[2]]]:
                line = words.at(edge)
                raise _refused(found, line, f"weight {line[2]}; it must be a number of 0 or more")
    numbers = (np.cumsum(is_node) - 1).astype(np.int32)
    names = (
        words if is_node.all() and corpus.key else WordList.of(words.at(np.flatnonzero(is_node)))
    )
    return Graph.of_parts(
        names,
        lambda: (
            (numbers[a], numbers[b], weights[c] if len(weights) else weights)
            for a, b, c in columns(begin, PART)
        ),
        settings.weighted,
        settings.directed,
    )


def _is_heading(first: list[str], *others: list[str], wanted: int) -> bool:
    """Whether the first line names columns: where others have a weight or numbered nodes, it has
    none.
    """
    if wanted == 3 and len(first) > 2 and math.isnan(_number(first[2])):
        return len(others[0]) > 2 and not math.isnan(_number(others[0][2]))
    return not any(word.isdecimal() for word in first) and all(
        word.isdecimal() for row in others for word in row[:2]
    )


def _number(word: str) -> float:
    """The number that a word is; NaN if it is none."""
    try:
        return float(word)
    except ValueError:
        return math.nan


def _refused(found: Sequence[Source], words: list[str], why: str) -> EmbedxError:
    """What is wrong with a line, by file and number; those of standard input have none, since it is
    read once.
    """
    for source in (each for each in found if each.fingerprint):
        with UnpackedReader(source) as file:
            for number, line in enumerate(
                io.TextIOWrapper(io.BufferedReader(file), "utf-8", "replace"), 1
            ):
                if words in (line.split(), line.replace(",", " ").split()):
                    return EmbedxError(f"{source.name}, line {number:,}: {why}")
    return EmbedxError(f"{found[0].name}: {' '.join(words)!r}: {why}")


def node_types(file: str, names: Sequence[str]) -> list[str | None]:
    """The type of each node, from lines of a node and its type; None for a node that the file does
    not have.
    """
    found: dict[str, str] = {}
    try:
        with open(file, encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    node, *rest = line.split()
                    if len(rest) != 1:
                        raise EmbedxError(
                            f"{file}, line {number:,}: must be a node and its type, without blanks"
                            " in them"
                        )
                    found[node] = rest[0]
    except (OSError, UnicodeDecodeError) as error:
        raise EmbedxError(
            f"--node-types {file}: {getattr(error, 'strerror', None) or 'not UTF-8'}; give a text"
            " file"
        ) from error
    return [found.get(name) for name in names]
