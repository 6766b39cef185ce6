"""Sources read into a folder: each once, tokenised, counted and reported on."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from embedx.errors import EmbedxError
from embedx.run.memory import amount, available_memory
from embedx.run.progress import Progress
from embedx.settings import TextSettings
from embedx.text.building import Building, explained
from embedx.text.sources import Source, total_size
from embedx.text.spill import Spill
from embedx.text.streams import ReadAhead, TextBlock
from embedx.text.tokenizer import END_OF_SENTENCE, BadUtf8Error
from embedx.text.tokens import Tokens
from embedx.text.word_list import WordList

Watch = Callable[[Source, bytes], None]  # is shown each block of the text, and an empty one where a source ends
SAMPLED_BYTES = 1 << 24  # of text, as stored, by which is reckoned what the tokens of all of it take
COUNT_SHARE = 0.25  # of the free memory, for words while a text is read: what unpacks it and the files written want some too


def read(
    sources: Sequence[Source],
    settings: TextSettings,
    progress: Progress,
    building: Building,
    threads: int,
    watch: Watch | None,
) -> dict[str, Any]:
    """Read all sources into `building`; the report of what was found."""
    reports: list[dict[str, Any]] = []
    n_tokens = stored = 0
    report = _new_report(sources[0])
    memory = int(COUNT_SHARE * available_memory() if settings.vocab_memory is None else 1e9 * settings.vocab_memory)
    spill = Spill(building.folder)
    total = total_size(sources)
    was_checked = len({Path(source.name).suffix for source in sources}) > 1  # where one does not tell of another
    progress.start("reading", total, "B")
    with (
        ReadAhead(sources, settings, threads) as blocks,
        Tokens(_watched(blocks, sources, watch), sources, settings, threads, memory) as pieces,
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
                if total and not was_checked and stored >= SAMPLED_BYTES:
                    was_checked = building.check_room(min(stored / total, 1.0))
                progress.update(stored, tokens=n_tokens + report["tokens"])
                if piece.is_last:
                    reports.append(report)
                    n_tokens += report["tokens"]
                    report = _new_report(sources[min(len(reports), len(sources) - 1)])
                if pieces.outgrow():
                    if not spill.segments:
                        so_far = n_tokens + report["tokens"]
                        progress.note(
                            f"the different words outgrow {amount(memory)} after {so_far:,} words of text: they go to disk, "
                            "and are merged at the end; --vocab-memory gives them more"
                        )
                    _spill(pieces, spill, building)
        except BadUtf8Error as error:
            raise EmbedxError(
                f"{sources[pieces.source].name}: not UTF-8 at byte {error.offset} of the (unpacked) text; "
                "convert it with iconv -t UTF-8, or choose --on-bad-utf8 replace or skip"
            ) from error
    progress.finish()
    if not n_tokens:
        names = sources[0].name if len(sources) == 1 else f"{sources[0].name} and {len(sources) - 1} more"
        raise EmbedxError(f"{names}: no words in it; is it the right file, and --tokenizer {settings.tokenizer} the right one?")
    words = pieces.words
    if spill.segments:
        if words.n_types:
            _spill(pieces, spill, building)
        building.merge(spill, memory, progress)
    else:
        building.write_words(WordList(words.word_letters.tobytes(), words.word_starts), words.counts)
    return {
        "n_tokens": n_tokens,
        "bytes_read": stored,
        "bad_utf8": sum(report["bad_utf8"] for report in reports),
        "sources": reports,
    }


def _spill(pieces: Tokens, spill: Spill, building: Building) -> None:
    """Write out the words that all tokens are numbered by which were written since it was done before."""
    with explained(building.home):
        spill.add(*pieces.emptied(), building.n_entries())


def _watched(blocks: Iterable[TextBlock], sources: Sequence[Source], watch: Watch | None) -> Iterator[TextBlock]:
    """The blocks as they are, each shown to who is to watch them."""
    for block in blocks:
        if watch is not None:
            watch(sources[block.source], block.data)
        yield block


def _new_report(source: Source) -> dict[str, Any]:
    """Of a source of which nothing is read yet."""
    return {"name": source.name, "tokens": 0, "bad_utf8": 0, "first_bad_byte": None, "too_long": 0}
