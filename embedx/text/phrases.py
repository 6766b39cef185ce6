"""Phrases: joins the collocations of a corpus to single words with `_`; the same collocations can
be joined in other text.

Each pass finds the collocations of the corpus that the previous pass produced (`collocations`), and
joins them from left to right, so `new york city` needs two passes. A joined word does not begin
another collocation of the same pass. The result is the encoded corpus of the text with joined
words, stored in the token cache under its own key.
"""

import contextlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy import int32, int64

from embedx.errors import SettingError, counted
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

# Part of every key: increase it when the results change.
FORMAT = 2


def with_phrases(
    corpus: EncodedCorpus,
    wanted: PhraseSettings | Phrases,
    progress: Progress,
    cache_dir: Path | None = None,
) -> EncodedCorpus:
    """Join the collocations of a corpus; `phrases_of` returns them.

    corpus  is closed
    wanted  settings to find collocations in the corpus, or collocations found in other text
    Raises `EmbedxError`.
    """
    key = _key(corpus, wanted)
    with corpus:
        joined = cache.kept(key, cache_dir, progress)
        if joined is not None:
            n_collocations = len(phrases_of(joined) or ())
            progress.note(f"{counted(n_collocations, 'collocation')} joined, from {joined.place}")
            return joined
        _check_words(corpus)
        joined = _joined(corpus, wanted, key, cache.folders(cache_dir)[0], progress)
        n_joined = corpus.n_tokens - joined.n_tokens
        progress.note(
            f"{n_joined:,} of {corpus.n_tokens:,} tokens joined to the one before; written to"
            f" {joined.place}"
        )
        return joined


def phrases_of(corpus: EncodedCorpus) -> Phrases | None:
    """The collocations that were joined in a corpus; None if none were to be joined."""
    collocations = corpus.report.get("collocations")
    if collocations is None:
        return None
    passes = (
        tuple(Collocation(tuple(words), times, score) for words, times, score in one_pass)
        for one_pass in collocations
    )
    return Phrases(tuple(corpus.report["connectors"]), tuple(passes))


def _key(corpus: EncodedCorpus, wanted: PhraseSettings | Phrases) -> str:
    """The key of the joined corpus in the token cache; "" if the corpus has no key."""
    if not corpus.key:
        return ""
    if isinstance(wanted, Phrases):
        identity = wanted.identity()
    else:
        # the memory limit does not change the result
        identity = {**wanted.record(), "phrase_memory": None}
    return cache.digest(["phrases", FORMAT, cache.FORMAT, corpus.key, identity])


def _check_words(corpus: EncodedCorpus) -> None:
    """Raise `SettingError` for words with white space, which would look like joined words."""
    for word in corpus.words:
        if word.split() != [word]:
            problem = f"takes words without white space; {word!r} is one of the corpus"
            raise SettingError("phrases", None, problem)


def _joined(
    corpus: EncodedCorpus,
    wanted: PhraseSettings | Phrases,
    key: str,
    home: Path,
    progress: Progress,
) -> EncodedCorpus:
    """The corpus after all passes, written to the token cache in `home`."""
    max_passes = len(wanted.passes) if isinstance(wanted, Phrases) else wanted.phrases
    passes: list[Sequence[Collocation]] = []
    joined = corpus
    with contextlib.ExitStack() as opened:
        while True:
            if isinstance(wanted, Phrases):
                collocations: Sequence[Collocation] = wanted.passes[len(passes)]
            else:
                with workspace(home) as folder, errors_explained(home):
                    collocations = find(joined, wanted, folder, progress)
                best = "".join(f", {collocation.joined}" for collocation in collocations[:3])
                found = counted(len(collocations), "collocation")
                progress.note(f"pass {len(passes) + 1}: {found}{best}")
            passes.append(collocations)
            is_last = len(passes) == max_passes or not collocations
            with CorpusWriter(home) as writer:
                _join_all(joined, collocations, wanted.connectors, writer, progress)
                report = {**corpus.report, "collocations": passes, "connectors": wanted.connectors}
                joined = writer.finish(report, {}, key if is_last else "", progress)
            if is_last:
                return joined
            # temporary: needed only until the last pass
            opened.enter_context(joined)


def _join_all(
    corpus: EncodedCorpus,
    collocations: Sequence[Collocation],
    connectors: Sequence[str],
    writer: CorpusWriter,
    progress: Progress,
) -> None:
    """Write the tokens and words of a corpus with these collocations joined."""
    words = [*corpus.words]
    tokens = corpus.tokens
    pairs = pairs_of(words, connectors)
    ids = {word: k for k, word in enumerate(words)}
    joined_id_by_code = {}
    for collocation in collocations:
        code = pairs.code([ids.get(word, -1) for word in collocation.words])
        if code < 0:
            continue
        joined = collocation.joined
        if joined not in ids:
            ids[joined] = len(words)
            words.append(joined)
        joined_id_by_code[code] = ids[joined]
    codes = np.array(sorted(joined_id_by_code), int64)
    targets = np.array([joined_id_by_code[code] for code in codes.tolist()], int32)
    numbers = np.full(len(words), -1, int32)
    out = np.empty(CHUNK, int32)
    n_types = 0
    at = 0
    progress.start("joining collocations", len(tokens), "tokens")
    while at < len(tokens):
        at, n, n_types = join(tokens, at, pairs, codes, targets, numbers, n_types, out)
        writer.write_tokens(out[:n])
        progress.update(at)
    progress.finish()
    order = np.argsort(numbers)[len(words) - n_types :]
    writer.write_words(WordList.of(words[k] for k in order.tolist()))


@kernel
def join(tokens, at, pairs, codes, targets, numbers, n_types, out):
    """Fill `out` with the tokens from `at` on, their collocations joined; return the place of the
    next token, the number of those written, and the number of words that have a number.

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
                word = int64(targets[k])
                at = last
        if word >= 0:
            if numbers[word] < 0:
                numbers[word] = n_types
                n_types += 1
            word = int64(numbers[word])
        out[n] = word
        n += 1
        at += 1
    return at, n, n_types
