"""Graphs in files: lists of edges, in whatever `embedx train` reads text from, and matrices of scipy and Matrix Market.

An edge list is read as text is: the nodes are its words, numbered, counted and kept in the token cache, and an edge is a line.
"""

import io
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.io import mmread
from scipy.sparse import load_npz

from embedx.errors import EmbedxError
from embedx.graphs.graph import Graph
from embedx.graphs.settings import GraphSettings
from embedx.settings import TextSettings
from embedx.text import cache, sources
from embedx.text.encoded_corpus import EncodedCorpus
from embedx.text.sources import Source
from embedx.text.streams import UnpackedReader
from embedx.text.tokenizer import END_OF_SENTENCE
from embedx.text.word_list import WordList
from embedx.training.progress import Progress

MATRICES = (".npz", ".mtx", ".mtx.gz")
COMMENTS = ("#", "%", "//")
LOOKED_AT = 50  # lines, to tell a heading
AS_TEXT = TextSettings(on_bad_utf8="error")


def read_graph(
    files: Sequence[str], settings: GraphSettings, progress: Progress, cache_dir: Path | None, threads: int
) -> Graph:
    """The graph in files. Raises `EmbedxError`, which names file and line, for what is no edge."""
    if len(files) == 1 and files[0].endswith(MATRICES):
        graph = _matrix(files[0], settings)
    else:
        found = [replace(each, reader="text") for each in sources.resolve(files)]  # .csv too
        with cache.encode(found, AS_TEXT, progress, cache_dir, threads) as corpus:
            graph = _edges(corpus, found, settings, progress)
    for what, n in graph.left_out.items():
        progress.note(f"{n:,} {what} {'have no vector' if what.startswith('nodes') else 'left out'}")
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
        raise EmbedxError(f"{file}: no sparse matrix ({error}); write one with scipy.sparse.save_npz or mmwrite") from error


def _edges(corpus: EncodedCorpus, found: Sequence[Source], settings: GraphSettings, progress: Progress) -> Graph:
    """The graph of lines of two or three columns, from their tokens."""
    words: WordList = corpus.words
    tokens = np.append(np.asarray(corpus.tokens), np.int32(END_OF_SENTENCE))
    ends = np.flatnonzero(tokens == END_OF_SENTENCE)
    begins = np.append(0, ends[:-1] + 1)
    is_comment = np.array([word.startswith(COMMENTS) for word in words])
    is_edge = (ends > begins) & ~is_comment[np.maximum(tokens[begins], 0)]
    begins, sizes = begins[is_edge], (ends - begins)[is_edge]
    if len(begins) and (sizes == 1).all():
        rows = [line.split(",") for line in words.at(tokens[begins])]
        number: dict[str, int] = {}
        tokens = np.array([number.setdefault(word, len(number)) for row in rows for word in row], dtype=np.int32)
        words, sizes = WordList.of(number), np.array([len(row) for row in rows])
        begins = np.cumsum(sizes) - sizes

    def line(k: int) -> list[str]:
        return words.at(tokens[begins[k] : begins[k] + sizes[k]])

    wanted = 3 if settings.weighted else 2
    if len(begins) > 1 and _is_heading(*(line(k) for k in range(min(len(begins), LOOKED_AT))), wanted=wanted):
        progress.note(f"{found[0].name}: its first line is taken as a heading, and left out")
        begins, sizes = begins[1:], sizes[1:]
    if not len(begins):
        raise EmbedxError(f"{found[0].name}: no edges; give two nodes a line")
    if (wrong := np.flatnonzero((sizes < wanted) | (sizes > 3))).size:
        what = f"{sizes[wrong[0]]} columns where an edge has {wanted}"
        raise _refused(found, line(wrong[0]), f"{what}; give two nodes{' and a weight' * settings.weighted} without blanks")
    if not settings.weighted and (n := int((sizes == 3).sum())):
        progress.note(f"the third column of {n:,} edges is not used; --set weighted=yes takes it as weights")
    weights = None
    if settings.weighted:
        distinct, which = np.unique(tokens[begins + 2], return_inverse=True)
        weights = np.array([_number(word) for word in words.at(distinct)], dtype=np.float32)[which]
        if (wrong := np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))).size:
            raise _refused(found, line(wrong[0]), f"weight {line(wrong[0])[2]}; it must be a number of 0 or more")
    nodes, ids = np.unique(tokens[np.stack([begins, begins + 1])], return_inverse=True)
    return Graph.of_ids(WordList.of(words.at(nodes)), ids.reshape(2, -1).astype(np.int32), weights, settings.directed)


def _is_heading(first: list[str], *others: list[str], wanted: int) -> bool:
    """Whether the first line names columns: where others have a weight or numbered nodes, it has none."""
    if wanted == 3 and len(first) > 2 and math.isnan(_number(first[2])):
        return len(others[0]) > 2 and not math.isnan(_number(others[0][2]))
    return not any(word.isdecimal() for word in first) and all(word.isdecimal() for row in others for word in row[:2])


def _number(word: str) -> float:
    """The number that a word is; NaN if it is none."""
    try:
        return float(word)
    except ValueError:
        return math.nan


def _refused(found: Sequence[Source], words: list[str], why: str) -> EmbedxError:
    """What is wrong with a line, by file and number; those of standard input have none, since it is read once."""
    for source in (each for each in found if each.fingerprint):
        with UnpackedReader(source) as file:
            for number, line in enumerate(io.TextIOWrapper(io.BufferedReader(file), "utf-8", "replace"), 1):
                if words in (line.split(), line.strip().split(",")):
                    return EmbedxError(f"{source.name}, line {number:,}: {why}")
    return EmbedxError(f"{found[0].name}: {' '.join(words)!r}: {why}")


def node_types(file: str, names: Sequence[str]) -> list[str | None]:
    """The type of each node, from lines of a node and its type; None for a node that the file does not have."""
    found: dict[str, str] = {}
    try:
        with open(file, encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    node, *rest = line.split()
                    if len(rest) != 1:
                        raise EmbedxError(f"{file}, line {number:,}: must be a node and its type, without blanks in them")
                    found[node] = rest[0]
    except (OSError, UnicodeDecodeError) as error:
        raise EmbedxError(
            f"--set node-types={file}: {getattr(error, 'strerror', None) or 'not UTF-8'}; give a text file"
        ) from error
    return [found.get(name) for name in names]
