"""Reads sources, each once, into the folder of a corpus: tokenises, counts and reports."""

import collections
import contextlib
from collections.abc import Callable, Sequence

import numpy as np
from numba import typeof

from embedx.errors import DataError, Setting, Text, counted, joined
from embedx.kernels.compiled import COMPILING, is_cached
from embedx.runtime.disk import amount
from embedx.runtime.memory import available_memory
from embedx.runtime.progress import Progress
from embedx.settings import Record
from embedx.text.corpus_writer import CorpusWriter
from embedx.text.parallel_tokenizer import TokenizedChunk, tokenized_chunks
from embedx.text.read_ahead import ReadAhead
from embedx.text.settings import TextSettings
from embedx.text.sources import Source, total_size
from embedx.text.tables import READ_BY
from embedx.text.tokenizer import END_OF_SENTENCE, Tokenizer, scan

# receives each block of text, and whether it is the last of its source
Watch = Callable[[Source, bytes, bool], None]
# Share of the free memory for words while a text is read; decompression and the files written need
# memory too.
SHARE_FOR_WORDS = 0.25


def read(
    sources: Sequence[Source],
    settings: TextSettings,
    progress: Progress,
    writer: CorpusWriter,
    threads: int,
    watch: Watch | None,
) -> Record:
    """Read all sources into `writer`; return the report of the counts, which may be zero."""
    n_tokens = 0
    memory = _memory_for_words(settings)
    tokenizer = Tokenizer(settings)
    note_compiling(tokenizer, progress)
    progress.start("reading", total_size(sources), "B")
    with (
        ReadAhead(sources, settings, threads) as blocks,
        contextlib.closing(
            tokenized_chunks(blocks, sources, settings, threads, tokenizer)
        ) as chunks,
    ):
        for tokenized in chunks:
            chunk = tokenized.chunk
            if watch is not None:
                watch(sources[chunk.source], chunk.data, chunk.is_last)
            writer.write_tokens(tokenized.tokens)
            n_words = int(np.count_nonzero(tokenized.tokens != END_OF_SENTENCE))
            n_tokens += n_words
            _count(tokenized, n_words, blocks.reports[chunk.source])
            progress.update(chunk.stored, tokens=n_tokens)
            if tokenizer.outgrows(memory):
                if not writer.spill.segments:
                    progress.note(
                        f"the distinct words exceed {amount(memory)} after {n_tokens:,} words of"
                        " text: they go to disk, and are merged at the end; ",
                        Setting("vocab_memory"),
                        " gives them more",
                    )
                writer.set_aside(tokenizer.take_words())
    progress.finish()
    writer.write_words(tokenizer.words, memory, progress)
    return {"n_tokens": n_tokens, "sources": blocks.reports}


def _memory_for_words(settings: TextSettings) -> int:
    """Memory for the table of words in bytes; a larger table is written to disk."""
    if settings.vocab_memory is None:
        return int(SHARE_FOR_WORDS * available_memory())
    return int(1e9 * settings.vocab_memory)


def _count(tokenized: TokenizedChunk, n_words: int, report: Record) -> None:
    """Add the number of tokens of a chunk, and its damage, to the report of its source."""
    report["tokens"] += n_words
    if tokenized.bad and not report["bad_utf8"]:
        report["first_bad_byte"] = tokenized.first_bad
    report["bad_utf8"] += tokenized.bad
    report["too_long"] += tokenized.too_long


def note_compiling(tokenizer: Tokenizer, progress: Progress) -> None:
    """Note that the tokenizer will be compiled, if it is not in the cache for this version and
    processor.
    """
    if not hasattr(scan, "compile"):
        # With NUMBA_DISABLE_JIT it stays plain Python.
        return
    letters = np.frombuffer(b"\n", np.uint8)
    tokens = np.empty(1, np.int32)
    state = (tokenizer.on_bad, tokenizer.characters, tokenizer.state, tokenizer.table)
    argument_types = tuple(map(typeof, (letters, 0, *state, tokens)))
    if not is_cached([(scan, argument_types)]):
        progress.note(
            f"{COMPILING} of the tokenizer, once for this version on this machine: a few seconds"
        )


def check_has_words(report: Record, sources: Sequence[Source], settings: TextSettings) -> None:
    """Raise `EmbedxError` if there are no words in the sources."""
    if report["n_tokens"]:
        return
    names = sources[0].name
    problem = "no words in it"
    if len(sources) > 1:
        names = f"{names} and {len(sources) - 1} more"
        problem = "no words in them"
    kinds = skipped_kinds(report["sources"])
    if kinds:
        raise DataError(names, None, (problem, "; skipped: ", kinds))
    with_bad_records = [source for source in report["sources"] if source["bad_records"]]
    if with_bad_records:
        n_bad = sum(source["bad_records"] for source in with_bad_records)
        first = with_bad_records[0]["first_bad_record"]
        records = f"{counted(n_bad, 'record')} skipped ({first})"
        fields = (Setting("json_field"), " or ", Setting("column"))
        raise DataError(names, None, f"{problem}; {records}", ("check ", fields))
    if all(source.size == 0 for source in sources):
        raise DataError(names, None, "0 bytes of text", "name a file with text")
    if settings.tokenizer == "words":
        white_space = Setting("tokenizer", "whitespace")
        raise DataError(names, None, problem, ("name a file with text, or take ", white_space))
    raise DataError(names, None, problem, "name a file with text")


def skipped_kinds(sources: Sequence[Record]) -> Text:
    """The number of sources skipped because they are not text, by kind, for a message; "" if none.

    sources  their reports
    """
    kinds = collections.Counter(report["skipped"] for report in sources if report["skipped"])
    if not kinds:
        return ""
    return joined((_counted_kind(kind, n) for kind, n in kinds.items()), ", ")


def _counted_kind(kind: str, n: int) -> Text:
    """Files of a kind, and the setting to read them: `2 JSON (--json-field)`."""
    setting = READ_BY.get(kind)
    if setting is None:
        return f"{n:,} {kind}"
    return (f"{n:,} {kind} (", setting, ")")
