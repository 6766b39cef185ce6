"""Sources read into a folder: each once, tokenised, counted and reported on."""

import collections
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from embedx.errors import EmbedxError
from embedx.settings import TextSettings
from embedx.storage.disk import amount
from embedx.text.building import Building, explained
from embedx.text.sources import Source, total_size
from embedx.text.spill import Spill
from embedx.text.streams import ReadAhead, TextBlock
from embedx.text.tokenizer import END_OF_SENTENCE, BadUtf8Error, Tokenizer
from embedx.text.tokens import Tokens
from embedx.text.word_list import WordList
from embedx.training.memory import available_memory
from embedx.training.progress import Progress

Watch = Callable[[Source, bytes], None]  # is shown each block of the text, and an empty one where a source ends
ReadElsewhere = Callable[[Sequence[Source], TextSettings, Progress, Building], dict[str, Any]]  # does what `read` does
SAMPLED_BYTES = 1 << 24  # of text, as stored, by which is reckoned what the tokens of all of it take
COUNT_SHARE = 0.25  # of the free memory, for words while a text is read: what unpacks it and the files written want some too


def read(
    sources: Sequence[Source],
    settings: TextSettings,
    progress: Progress,
    building: Building,
    threads: int,
    watch: Watch | None = None,
) -> dict[str, Any]:
    """Read all sources into `building`; the report of what was found, be it nothing."""
    reports: list[dict[str, Any]] = []
    n_tokens = stored = 0
    report = _new_report(sources[0])
    writing = Writing(sources, settings, building, progress)
    progress.start("reading", total_size(sources), "B")
    with (
        ReadAhead(sources, settings, threads) as blocks,
        Tokens(_watched(blocks, sources, watch), sources, settings, threads, writing.memory) as pieces,
    ):
        try:
            for piece in pieces:
                for tokens in piece.tokens:
                    building.write_tokens(tokens)
                    report["tokens"] += int(np.count_nonzero(tokens != END_OF_SENTENCE))
                if piece.bad and not report["bad_utf8"]:
                    report["first_bad_byte"] = piece.first_bad
                report["bad_utf8"] += piece.bad
                report["too_long"] += piece.too_long
                stored = piece.stored
                writing.check_room(stored)
                progress.update(stored, tokens=n_tokens + report["tokens"])
                if piece.is_last:
                    bad = blocks.bad_records[len(reports)]
                    report["bad_records"], report["first_bad_record"] = bad.count, bad.first
                    report["skipped"] = blocks.skipped[len(reports)]
                    reports.append(report)
                    n_tokens += report["tokens"]
                    report = _new_report(sources[min(len(reports), len(sources) - 1)])
                if pieces.outgrow():
                    writing.set_aside(*pieces.emptied(), n_tokens + report["tokens"])
        except BadUtf8Error as error:
            raise EmbedxError(
                f"{sources[pieces.source].name}: not UTF-8 at byte {error.offset} of the (unpacked) text; "
                "convert it with iconv -t UTF-8, or choose --on-bad-utf8 replace or skip"
            ) from error
    progress.finish()
    writing.finish(pieces.words, n_tokens)
    return report_of(reports, stored)


def report_of(sources: list[dict[str, Any]], stored: int) -> dict[str, Any]:
    """The report of a corpus, from those of its sources and how many bytes of them were read, as stored."""
    return {
        "n_tokens": sum(report["tokens"] for report in sources),
        "bytes_read": stored,
        "bad_utf8": sum(report["bad_utf8"] for report in sources),
        "sources": sources,
    }


def check_found(report: dict[str, Any], sources: Sequence[Source], settings: TextSettings) -> None:
    """Raise `EmbedxError` if there are no words in the sources."""
    if not report["n_tokens"]:
        names = sources[0].name if len(sources) == 1 else f"{sources[0].name} and {len(sources) - 1} more"
        if kinds := skipped_kinds(report["sources"]):
            raise EmbedxError(f"{names}: no words in it; skipped are {kinds}")
        if first := next((each["first_bad_record"] for each in report["sources"] if each["bad_records"]), ""):
            n = sum(each["bad_records"] for each in report["sources"])
            raise EmbedxError(f"{names}: no words in it, {n:,} records skipped ({first}); check --json-field or --column")
        raise EmbedxError(f"{names}: no words in it; is it the right file, and --tokenizer {settings.tokenizer} the right one?")


def skipped_kinds(sources: Sequence[dict[str, Any]]) -> str:
    """How many of the sources, by their reports, were skipped because they are no text, by kind; "" if none was."""
    kinds = collections.Counter(report["skipped"] for report in sources if report["skipped"])
    return ", ".join(f"{n:,} {kind}" for kind, n in kinds.items())


class Writing:
    """Has the words of `sources` written to a folder when all are read; those that outgrow the memory for them, before."""

    def __init__(self, sources: Sequence[Source], settings: TextSettings, building: Building, progress: Progress) -> None:
        self.building, self.progress = building, progress
        memory = COUNT_SHARE * available_memory() if settings.vocab_memory is None else 1e9 * settings.vocab_memory
        self.memory = int(memory)  # bytes, that words may take
        self._spill = Spill(building.folder)
        self._total = total_size(sources)
        self._was_checked = len({Path(source.name).suffix for source in sources}) > 1  # where one does not tell of another

    def check_room(self, stored: int) -> None:
        """Raise `EmbedxError` if the disk has no room for the tokens of all, by those of the first `stored` bytes."""
        if self._total and not self._was_checked and stored >= SAMPLED_BYTES:
            self._was_checked = self.building.check_room(min(stored / self._total, 1.0))

    def set_aside(self, letters: np.ndarray, starts: np.ndarray, n_tokens: int) -> None:
        """Write out the words by which all tokens are numbered that were written since this was done; `n_tokens` in all."""
        if not self._spill.segments:
            self.progress.note(
                f"the different words outgrow {amount(self.memory)} after {n_tokens:,} words of text: they go to disk, "
                "and are merged at the end; --vocab-memory gives them more"
            )
        with explained(self.building.home):
            self._spill.add(letters, starts, self.building.n_entries())

    def finish(self, words: Tokenizer, n_tokens: int) -> None:
        """Write the words of all, of which `words` has those that were not set aside."""
        if not self._spill.segments:
            self.building.write_words(WordList(words.word_letters.tobytes(), words.word_starts), words.counts)
            return
        if words.n_types:
            self.set_aside(*words.emptied(), n_tokens)
        self.building.merge(self._spill, self.memory, self.progress)


def _watched(blocks: Iterable[TextBlock], sources: Sequence[Source], watch: Watch | None) -> Iterator[TextBlock]:
    """The blocks as they are, each shown to who is to watch them."""
    for block in blocks:
        if watch is not None:
            watch(sources[block.source], block.data)
        yield block


def _new_report(source: Source) -> dict[str, Any]:
    """Of a source of which nothing is read yet."""
    return {"name": source.name, "tokens": 0, "bad_utf8": 0, "first_bad_byte": None, "too_long": 0, "bad_records": 0}
