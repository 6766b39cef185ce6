"""Phrases: a corpus in which collocations are single words, joined by `_`, and the same done to other text.

Each pass finds the collocations of the corpus as the passes before left it (`collocations`), and joins them from left to
right, so that `new york city` takes two. A word that was joined is not the beginning of the next. The result is an encoded
corpus like that of a text in which the joined words stand, in the token cache under a key of its own.
"""

import contextlib
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from embedx.errors import EmbedxError
from embedx.kernels.compiled import kernel, kernel_part
from embedx.settings import PhraseSettings
from embedx.text import cache
from embedx.text.collocations import find, hash_table, home_slot
from embedx.text.corpus_writer import CorpusWriter, explained, workspace
from embedx.text.encoded_corpus import EncodedCorpus, load
from embedx.text.phrase_list import Collocation, Phrases
from embedx.text.word_list import WordList
from embedx.training.progress import Progress

FORMAT = 1  # part of every key: raise it when the results change
CHUNK = 1 << 20  # tokens that are joined at a time


class Trie(NamedTuple):
    """Collocations by the ids of their words."""

    is_connector: np.ndarray  # bool (n_words,)
    first_node: np.ndarray  # int32 (n_words,): the node of each first word, 0 if there is none
    edges: np.ndarray  # int64: a hash table of node << 32 | word
    targets: np.ndarray  # int64 (len(edges), 1): the next node, or of a last word, which is no connector, the joined word + 1


class Numbering(NamedTuple):
    """Words numbered by first appearance in the result."""

    number: np.ndarray  # int32 (n_words,): the new id of each word, -1 before it appears
    order: np.ndarray  # int32 (n_words,): the words by new id
    n_types: np.ndarray  # int64 (1,): how many there are


def with_phrases(
    corpus: EncodedCorpus, wanted: PhraseSettings | Phrases, progress: Progress, cache_dir: Path | None = None
) -> EncodedCorpus:
    """The corpus with its collocations joined, those that settings find in it or those that were found in other text.

    The corpus that is given is closed. Raises `EmbedxError`. See `phrases_of` for what was joined.
    """
    home = cache_dir or cache.default_folder()
    how = wanted.identity() if isinstance(wanted, Phrases) else {**wanted.record(), "phrase_memory": None}
    identity = json.dumps(["phrases", FORMAT, cache.FORMAT, corpus.key, how], sort_keys=True)
    key = hashlib.sha256(identity.encode()).hexdigest()[:24] if corpus.key else ""
    with corpus:
        if key and (kept := load(home / key, progress)) is not None:
            progress.note(f"{len(phrases_of(kept) or ()):,} collocations joined, from the token cache {kept.folder}")
            return kept
        _check_words(corpus.words)
        n_passes = len(wanted.passes) if isinstance(wanted, Phrases) else wanted.phrases
        connectors = wanted.connectors
        found: list[Sequence[Collocation]] = []
        with contextlib.ExitStack() as stack:
            joined = corpus
            for number in range(1, n_passes + 1):
                if isinstance(wanted, Phrases):
                    found.append(wanted.passes[number - 1])
                else:
                    with workspace(home) as folder, explained(home):
                        found.append(find(joined.tokens, joined.words, joined.counts, wanted, folder, progress))
                    progress.note(f"pass {number}: {len(found[-1]):,} collocations" + _shown(found[-1]))
                is_last = number == n_passes or not found[-1]
                what = {"collocations": [_lines(each) for each in found], "connectors": [*connectors]} if is_last else {}
                joined = _joined(joined, found[-1], connectors, home, key if is_last else "", corpus.report | what, progress)
                if is_last:
                    break
                stack.enter_context(joined)
        where = f"the token cache {joined.folder}" if joined.key else f"{joined.folder} for this run only"
        n_joined = corpus.n_tokens - joined.n_tokens
        progress.note(f"{n_joined:,} of {corpus.n_tokens:,} tokens joined to the one before; written to {where}")
        return joined


def phrases_of(corpus: EncodedCorpus) -> Phrases | None:
    """What was joined in a corpus; None if nothing was to be."""
    found = corpus.report.get("collocations")
    if found is None:
        return None
    return Phrases(tuple(corpus.report["connectors"]), tuple(tuple(map(_collocation, each)) for each in found))


def _lines(found: Sequence[Collocation]) -> list[str]:
    """Collocations as they stand in the cache, a line each: words, how often they were seen, score."""
    return [f"{' '.join(each.words)}\t{each.times}\t{each.score!r}" for each in found]


def _collocation(line: str) -> Collocation:
    words, times, score = line.split("\t")
    return Collocation(tuple(words.split(" ")), int(times), float(score))


def _shown(found: Sequence[Collocation]) -> str:
    """The best of them, for the end of a line."""
    return "".join(f", {each.joined}" for each in found[:3]) + (", ..." if len(found) > 3 else "")


def _check_words(words: Sequence[str]) -> None:
    """Raise `EmbedxError` for words that lists of collocations could not be read back with."""
    if " ".join(words).split() != [*words]:
        wrong = next(word for word in words if word.split() != [word])
        raise EmbedxError(f"--phrases takes words without white space; {wrong!r} is one of the corpus")


def _joined(
    corpus: EncodedCorpus,
    found: Sequence[Collocation],
    connectors: Sequence[str],
    home: Path,
    key: str,
    report: dict[str, Any],
    progress: Progress,
) -> EncodedCorpus:
    """A corpus with these collocations joined, kept under the key or, without one, until it is closed."""
    words, trie = _trie(corpus.words, found, connectors)
    numbering = Numbering(np.full(len(words), -1, np.int32), np.empty(len(words), np.int32), np.zeros(1, np.int64))
    tokens, at, size = corpus.tokens, 0, CHUNK
    out = np.empty(size, np.int32)
    progress.start("joining collocations", len(tokens), " tokens")
    with CorpusWriter(home) as writer:
        while at < len(tokens):
            after, n = join(tokens, at, min(at + size, len(tokens)), trie, numbering, out)
            writer.write_tokens(out[:n])
            if after == at:  # a word that so many connector words follow
                size *= 2
                out = np.empty(size, np.int32)
            at = after
            progress.update(at)
        progress.finish()
        order = numbering.order[: numbering.n_types[0]]
        counts = writer.write_words(WordList.of(words[k] for k in order.tolist()))
        report = report | {"n_tokens": int(counts.sum())}
        if key:
            return writer.publish(key, report, {}, progress)
        return writer.keep_until_closed(report, {})


def _trie(words: Sequence[str], found: Sequence[Collocation], connectors: Sequence[str]) -> tuple[list[str], Trie]:
    """The words with those that are joined, and the collocations by their ids."""
    wanted = {word for each in found for word in each.words} | {each.joined for each in found} | set(connectors)
    ids = {word: k for k, word in enumerate(words) if word in wanted}
    is_connector, first_node = np.zeros(len(words), np.bool_), np.zeros(len(words), np.int32)
    is_connector[[ids[word] for word in connectors if word in ids]] = True
    all_words = list(words)
    edges: dict[int, int] = {}
    n_nodes = 0
    for each in found:
        first, *between, last = (ids.get(word, -1) for word in each.words)
        if min(first, last, *between) < 0 or [k for k in (first, *between, last) if is_connector[k]] != between:
            continue
        n_nodes += first_node[first] == 0
        node = first_node[first] = int(first_node[first]) or n_nodes
        for word in between:
            n_nodes += (node << 32 | word) not in edges
            node = edges.setdefault(node << 32 | word, n_nodes)
        if each.joined not in ids:
            ids[each.joined] = len(all_words)
            all_words.append(each.joined)
        edges[node << 32 | last] = ids[each.joined] + 1
    table = hash_table(np.array([*edges], np.int64), np.array([*edges.values()], np.int64).reshape(-1, 1))
    return all_words, Trie(is_connector, first_node, *table)


@kernel
def join(tokens, start, stop, trie, numbering, out):
    """Write tokens[start:stop] with their collocations joined, by new ids in the order of first appearance; return where to
    resume, which is where a word stands that may begin a collocation beyond `stop`, and how many were written.
    """
    n, opened, node = 0, np.int64(-1), np.int64(0)  # the first word of what may be a collocation, and its place in the trie
    for at in range(start, stop):
        word = np.int64(tokens[at])
        is_connector = word >= 0 and trie.is_connector[word]
        target = _target(trie, node, word) if word >= 0 and opened >= 0 and node > 0 else np.int64(0)
        if is_connector and opened >= 0:
            node = target
        elif target > 0:
            n = _emit(target - 1, numbering, out, n)
            opened = np.int64(-1)
        else:
            for k in range(opened if opened >= 0 else at, at):
                n = _emit(np.int64(tokens[k]), numbering, out, n)
            opened = np.int64(-1)
            if word < 0 or is_connector:
                n = _emit(word, numbering, out, n)
            else:
                opened, node = np.int64(at), np.int64(trie.first_node[word])
    if opened >= 0 and stop < tokens.size:
        return opened, n
    for k in range(opened if opened >= 0 else stop, stop):
        n = _emit(np.int64(tokens[k]), numbering, out, n)
    return stop, n


@kernel_part
def _target(trie, node, word):
    """Where an edge of the trie leads; 0 if there is none."""
    key = node << 32 | word
    slot = home_slot(trie.edges, key)
    while trie.edges[slot] != 0 and trie.edges[slot] != key:
        slot = (slot + 1) & (trie.edges.size - 1)
    return trie.targets[slot, 0] if trie.edges[slot] == key else np.int64(0)


@kernel_part
def _emit(word, numbering, out, n):
    """Write a word by its new id, or a mark between sentences, to out[n]; return n + 1."""
    if word >= 0:
        if numbering.number[word] < 0:
            numbering.number[word] = numbering.n_types[0]
            numbering.order[numbering.n_types[0]] = word
            numbering.n_types[0] += 1
        word = np.int64(numbering.number[word])
    out[n] = word
    return n + 1
