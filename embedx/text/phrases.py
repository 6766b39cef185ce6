"""Phrases: a corpus in which collocations are single words, joined by `_`, and the same done to other text.

Each pass finds the collocations of the corpus as the passes before left it (`collocations`), and joins them from left to
right, so that `new york city` takes two. A word that was joined is not the beginning of the next. The result is an encoded
corpus like that of a text in which the joined words stand, in the token cache under a key of its own.
"""

import contextlib
import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from embedx.errors import EmbedxError
from embedx.kernels.compiled import kernel, kernel_part
from embedx.settings import PhraseSettings
from embedx.text import cache
from embedx.text.building import Building
from embedx.text.collocations import NO_WORD, VALUE, Sequences, fill, find, slot_of_ids
from embedx.text.encoded_corpus import EncodedCorpus, load
from embedx.text.joined import Collocation, Phrases
from embedx.text.word_list import WordList
from embedx.training.progress import Progress

FORMAT = 1  # part of every key: raise it when the results change
CHUNK = 1 << 20  # tokens that are joined at a time
TYPES = 0  # place in the state of joining: how many words the result has so far


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
                    found.append(find(joined.tokens, joined.words, joined.counts, wanted, progress))
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
    words, is_connector, sequences, table, is_first = _tables(corpus.words, found, connectors)
    number, counts = np.full(len(words), NO_WORD, np.int32), np.zeros(len(words), np.int64)
    order, state = np.empty(len(words), np.int32), np.zeros(1, np.int64)
    tokens, at, size = corpus.tokens, 0, CHUNK
    out = np.empty(size, np.int32)
    progress.start("joining collocations", len(tokens), " tokens")
    with Building(home) as building:
        while at < len(tokens):
            stop = min(at + size, len(tokens))
            arguments = (is_connector, sequences.table, table, is_first, number, order, counts, state, out)
            after, n = join(tokens, at, stop, len(tokens), *arguments)
            building.write_tokens(out[:n])
            if after == at:  # a word that so many connector words follow
                size *= 2
                out = np.empty(size, np.int32)
            at = after
            progress.update(at)
        progress.finish()
        n_types = int(state[TYPES])
        building.write_words(WordList.of(words[k] for k in order[:n_types].tolist()), counts[:n_types])
        report = report | {"n_tokens": int(counts[:n_types].sum())}
        if key:
            return building.publish(key, report, {}, progress)
        return building.keep_until_closed(report, {})


def _tables(
    words: Sequence[str], found: Sequence[Collocation], connectors: Sequence[str]
) -> tuple[list[str], np.ndarray, Sequences, np.ndarray, np.ndarray]:
    """What `join` looks into: the words with those that are joined, uint8 (n_words,) whether each is a connector, the sequences
    between words, the table of collocations, and uint8 (n_words,) whether one begins with the word.
    """
    wanted = {word for each in found for word in each.words} | {each.joined for each in found} | set(connectors)
    ids = {word: k for k, word in enumerate(words) if word in wanted}
    is_connector = np.zeros(len(words), np.bool_)
    is_connector[[ids[word] for word in connectors if word in ids]] = True
    present = [each for each in found if all(word in ids for word in each.words)]
    all_words = list(words)
    between: dict[tuple[int, int], int] = {}
    rows = []
    for each in present:
        a, *inner, b = (ids[word] for word in each.words)
        m = 0
        for word in inner:
            m = between.setdefault((m, word), len(between) + 1)
        if each.joined not in ids:
            ids[each.joined] = len(all_words)
            all_words.append(each.joined)
        rows.append((a, b, m, ids[each.joined] + 1))
    sequences = Sequences(_slots(len(between)))
    fill(sequences.table, _rows((m, word, 0, longer) for (m, word), longer in between.items()))
    table = np.zeros((_slots(len(rows)), 4), np.int32)
    fill(table, _rows(rows))
    is_first = np.zeros(len(words), np.bool_)
    is_first[[a for a, *_ in rows]] = True
    return all_words, is_connector, sequences, table, is_first


def _rows(rows: Iterable[tuple[int, ...]]) -> np.ndarray:
    return np.array([*rows], np.int32).reshape(-1, 4)


def _slots(n: int) -> int:
    """Room for so many, a power of two."""
    return 1 << (2 * n + 2).bit_length()


@kernel
def join(
    tokens, start, stop, n_tokens, is_connector, sequences, table, is_first, number, order, counts, state, out
):  # fmt: skip
    """Write tokens[start:stop] with their collocations joined, by new ids in the order of first appearance; return where to go
    on, which is where a word stands that may begin a collocation beyond `stop`, and how many were written.

    number   int32: the new id of each word, or NO_WORD; `order` the words by new id, `counts` how often each was written
    """
    n, opened, m = 0, np.int64(NO_WORD), np.int64(0)
    at = start
    while at < stop:
        word = np.int64(tokens[at])
        if word >= 0 and is_connector[word] and opened >= 0:
            m = np.int64(sequences[slot_of_ids(sequences, m, word, 0), VALUE]) if m >= 0 else m
            m = m if m > 0 else np.int64(NO_WORD)  # what stands within no collocation
        else:
            joined = np.int64(0)
            if word >= 0 and not is_connector[word] and opened >= 0 and m >= 0 and is_first[tokens[opened]]:
                joined = np.int64(table[slot_of_ids(table, np.int64(tokens[opened]), word, m), VALUE])
            if joined > 0:
                n = _emit(joined - 1, number, order, counts, state, out, n)
                opened = np.int64(NO_WORD)
            else:
                for k in range(opened if opened >= 0 else at, at):
                    n = _emit(np.int64(tokens[k]), number, order, counts, state, out, n)
                opened = np.int64(NO_WORD)
                if word < 0 or is_connector[word]:
                    n = _emit(word, number, order, counts, state, out, n)
                else:
                    opened, m = np.int64(at), np.int64(0)
        at += 1
    if opened < 0:
        return stop, n
    if stop < n_tokens:
        return opened, n
    for k in range(opened, stop):
        n = _emit(np.int64(tokens[k]), number, order, counts, state, out, n)
    return stop, n


@kernel_part
def _emit(word, number, order, counts, state, out, n):
    """Write a word, or a mark between sentences, to out[n]; return n + 1."""
    if word < 0:
        out[n] = word
    else:
        if number[word] < 0:
            number[word] = state[TYPES]
            order[state[TYPES]] = word
            state[TYPES] += 1
        out[n] = number[word]
        counts[number[word]] += 1
    return n + 1
