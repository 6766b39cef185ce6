"""Sources read into a folder: each once, tokenised, counted and reported on."""

import collections
import contextlib
from collections.abc import Callable, Sequence

import numpy as np
from numba import typeof

from embedx.errors import DataError, Setting, Text, joined
from embedx.kernels.compiled import is_cached
from embedx.runtime.disk import amount
from embedx.runtime.memory import available_memory
from embedx.runtime.progress import Progress
from embedx.settings import Record
from embedx.text.corpus_writer import CorpusWriter
from embedx.text.parallel_tokenizer import pieces
from embedx.text.read_ahead import ReadAhead
from embedx.text.settings import TextSettings
from embedx.text.sources import Source, total_size
from embedx.text.tables import READ_BY
from embedx.text.tokenizer import END_OF_SENTENCE, Tokenizer, scan

# takes each block of the text, and whether it is the last one of its source
Watch = Callable[[Source, bytes, bool], None]
# of the free memory, for words while a text is read: what unpacks it and the files written want
# some too
COUNT_SHARE = 0.25


def read(
    sources: Sequence[Source],
    settings: TextSettings,
    progress: Progress,
    writer: CorpusWriter,
    threads: int,
    watch: Watch | None,
) -> Record:
    """Read all sources into `writer`; the report of what was found, be it nothing."""
    n_tokens = 0
    memory = int(
        COUNT_SHARE * available_memory()
        if settings.vocab_memory is None
        else 1e9 * settings.vocab_memory
    )
    words = Tokenizer(settings)
    note_compiling(words, progress)
    progress.start("reading", total_size(sources), "B")
    with (
        ReadAhead(sources, settings, threads) as blocks,
        contextlib.closing(pieces(blocks, sources, settings, threads, words)) as found,
    ):
        for piece in found:
            chunk, report = piece.chunk, blocks.reports[piece.chunk.source]
            if watch is not None:
                watch(sources[chunk.source], chunk.data, chunk.is_last)
            writer.write_tokens(piece.tokens)
            n_words = int(np.count_nonzero(piece.tokens != END_OF_SENTENCE))
            n_tokens += n_words
            report["tokens"] += n_words
            if piece.bad and not report["bad_utf8"]:
                report["first_bad_byte"] = piece.first_bad
            report["bad_utf8"] += piece.bad
            report["too_long"] += piece.too_long
            progress.update(chunk.stored, tokens=n_tokens)
            if words.outgrows(memory):
                if not writer.spill.segments:
                    progress.note(
                        f"the distinct words exceed {amount(memory)} after {n_tokens:,} words of"
                        " text: they go to disk, and are merged at the end; ",
                        Setting("vocab_memory"),
                        " gives them more",
                    )
                writer.set_aside(words.emptied())
    progress.finish()
    writer.write_words(words.words, memory, progress)
    return {"n_tokens": n_tokens, "sources": blocks.reports}


def note_compiling(tokenizer: Tokenizer, progress: Progress) -> None:
    """Say so where the tokenizer is yet to be compiled, for this version or kind of processor."""
    if not hasattr(scan, "compile"):  # plain Python under NUMBA_DISABLE_JIT
        return
    letters = np.frombuffer(b"\n", np.uint8)
    tokens = np.empty(1, np.int32)
    like = (letters, 0, tokenizer.on_bad, tokenizer.characters, tokenizer.state, tokenizer.table)
    if not is_cached([(scan, tuple(map(typeof, (*like, tokens))))]):
        progress.note(
            "compiling kernels of the tokenizer, once for this version on this machine: a few"
            " seconds"
        )


def check_has_words(report: Record, sources: Sequence[Source], settings: TextSettings) -> None:
    """Raise `EmbedxError` if there are no words in the sources."""
    if report["n_tokens"]:
        return
    names = (
        sources[0].name if len(sources) == 1 else f"{sources[0].name} and {len(sources) - 1} more"
    )
    tokenizer = Setting("tokenizer", settings.tokenizer)
    problem: Text = "no words in it"
    remedy: Text = ("is it the right file, and ", tokenizer, " the right one?")
    if kinds := skipped_kinds(report["sources"]):
        remedy = ("skipped: ", kinds)
    elif n := sum(each["bad_records"] for each in report["sources"]):
        first = next(each["first_bad_record"] for each in report["sources"] if each["bad_records"])
        problem = f"no words in it; {n:,} records were skipped ({first})"
        remedy = ("check ", Setting("json_field"), " or ", Setting("column"))
    raise DataError(names, None, problem, remedy)


def skipped_kinds(sources: Sequence[Record]) -> Text:
    """How many of the sources, by their reports, were skipped because they are no text, by kind; ""
    if none was.
    """
    kinds = collections.Counter(report["skipped"] for report in sources if report["skipped"])
    return joined((_counted_kind(kind, n) for kind, n in kinds.items()), ", ") if kinds else ""


def _counted_kind(kind: str, n: int) -> Text:
    """Such as `2 JSON (--json-field)`: files of a kind, and the setting that would read them."""
    setting = READ_BY.get(kind)
    return f"{n:,} {kind}" if setting is None else (f"{n:,} {kind} (", setting, ")")
