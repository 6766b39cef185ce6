"""Phrases: a corpus in which collocations are single words, joined by `_`, and the same done to
other text.

Each pass finds the collocations of the corpus as the passes before left it (`collocations`), and
joins them from left to right, so that `new york city` takes two. A word that was joined is not the
beginning of the next. The result is an encoded corpus like that of a text in which the joined words
stand, in the token cache under a key of its own.
"""

import contextlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy import int32, int64

from embedx.errors import SettingError
from embedx.kernels import kernel
from embedx.runtime.progress import Progress
from embedx.text import cache
from embedx.text.collocations import CHUNK, find, pair_at, pairs_of
from embedx.text.corpus_writer import CorpusWriter
from embedx.text.encoded_corpus import EncodedCorpus
from embedx.text.phrase_list import Collocation, Phrases
from embedx.text.settings import PhraseSettings
from embedx.text.temporary_folders import errors_explained, workspace
from embedx.text.word_list import WordList

FORMAT = 2  # part of every key: raise it when the results change


def with_phrases(
    corpus: EncodedCorpus,
    wanted: PhraseSettings | Phrases,
    progress: Progress,
    cache_dir: Path | None = None,
) -> EncodedCorpus:
    """The corpus with its collocations joined, those that settings find in it or those that were
    found in other text.

    The corpus that is given is closed. Raises `EmbedxError`. See `phrases_of` for what was joined.
    """
    home = cache.folders(cache_dir)[0]
    how = (
        wanted.identity()
        if isinstance(wanted, Phrases)
        else {**wanted.record(), "phrase_memory": None}
    )
    key = cache.digest(["phrases", FORMAT, cache.FORMAT, corpus.key, how]) if corpus.key else ""
    with contextlib.ExitStack() as opened:
        opened.enter_context(corpus)
        if (kept := cache.kept(key, cache_dir, progress)) is not None:
            progress.note(f"{len(phrases_of(kept) or ()):,} collocations joined, from {kept.place}")
            return kept
        if (
            wrong := next((word for word in corpus.words if word.split() != [word]), None)
        ) is not None:
            problem = f"takes words without white space; {wrong!r} is one of the corpus"
            raise SettingError("phrases", None, problem)
        n_passes = len(wanted.passes) if isinstance(wanted, Phrases) else wanted.phrases
        found: list[Sequence[Collocation]] = []
        joined, is_last = corpus, False
        while not is_last:
            if isinstance(wanted, Phrases):
                found.append(wanted.passes[len(found)])
            else:
                with workspace(home) as folder, errors_explained(home):
                    found.append(find(joined, wanted, folder, progress))
                best = "".join(f", {each.joined}" for each in found[-1][:3])
                progress.note(f"pass {len(found)}: {len(found[-1]):,} collocations{best}")
            is_last = len(found) == n_passes or not found[-1]
            with CorpusWriter(home) as writer:
                _join_all(joined, found[-1], wanted.connectors, writer, progress)
                report = {**corpus.report, "collocations": found, "connectors": wanted.connectors}
                joined = writer.finish(report, {}, key if is_last else "", progress)
            if not is_last:
                opened.enter_context(joined)
        n_joined = corpus.n_tokens - joined.n_tokens
        progress.note(
            f"{n_joined:,} of {corpus.n_tokens:,} tokens joined to the one before; written to"
            f" {joined.place}"
        )
        return joined


def phrases_of(corpus: EncodedCorpus) -> Phrases | None:
    """What was joined in a corpus; None if nothing was to be."""
    found = corpus.report.get("collocations")
    if found is None:
        return None
    passes = (
        tuple(Collocation(tuple(words), times, score) for words, times, score in each)
        for each in found
    )
    return Phrases(tuple(corpus.report["connectors"]), tuple(passes))


def _join_all(
    corpus: EncodedCorpus,
    found: Sequence[Collocation],
    connectors: Sequence[str],
    writer: CorpusWriter,
    progress: Progress,
) -> None:
    """Write the tokens and words of a corpus with these collocations joined."""
    words, tokens = [*corpus.words], corpus.tokens
    pairs = pairs_of(words, connectors)
    ids = {word: k for k, word in enumerate(words)}
    target = {}  # by the code of a pair
    for each in found:
        if (code := pairs.code([ids.get(word, -1) for word in each.words])) >= 0:
            if each.joined not in ids:
                ids[each.joined] = len(words)
                words.append(each.joined)
            target[code] = ids[each.joined]
    codes = np.array(sorted(target), int64)
    targets = np.array([target[code] for code in codes.tolist()], int32)
    numbers, n_types = np.full(len(words), -1, int32), 0
    out, at = np.empty(CHUNK, int32), 0
    progress.start("joining collocations", len(tokens), " tokens")
    while at < len(tokens):
        at, n, n_types = join(tokens, at, pairs, codes, targets, numbers, n_types, out)
        writer.write_tokens(out[:n])
        progress.update(at)
    progress.finish()
    order = np.argsort(numbers)[len(words) - n_types :]
    writer.write_words(WordList.of(words[k] for k in order.tolist()))


@kernel
def join(tokens, at, pairs, codes, targets, numbers, n_types, out):
    """Fill `out` with the tokens from `at` on, their collocations joined; return where it stopped,
    how many were written, and how many words have a number.

    codes    int64, ascending: the pairs to join; `targets` int32: the id of the word that each
             becomes
    numbers  int32: the number of a word by its id, by first appearance; -1 before that
    """
    n = 0
    while at < tokens.size and n < out.size:
        word = int64(tokens[at])
        code, last = pair_at(tokens, at, pairs)
        if code >= 0:
            k = np.searchsorted(codes, code)
            if k < codes.size and codes[k] == code:
                word, at = int64(targets[k]), last
        if word >= 0:
            if numbers[word] < 0:
                numbers[word] = n_types
                n_types += 1
            word = int64(numbers[word])
        out[n] = word
        n += 1
        at += 1
    return at, n, n_types
