"""Encodes corpora, given by name or as lists of sentences, as provisional token ids.

names -> sources (`sources`) -> blocks of text, read ahead (`streams`, `read_ahead`)
      -> tokens (`parallel_tokenizer`) -> an encoded corpus in the token cache (`cache`)
"""

import glob
import os
import reprlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import cast

from embedx.errors import DataError, counted, joined
from embedx.runtime.cores import usable_cores
from embedx.runtime.progress import SILENT, Progress
from embedx.settings import Record
from embedx.text import cache
from embedx.text.corpus_writer import CorpusWriter
from embedx.text.encoded_corpus import EncodedCorpus
from embedx.text.file_kinds import TO_UTF8
from embedx.text.phrase_list import Phrases
from embedx.text.phrases import with_phrases
from embedx.text.reading import Watch, check_has_words, read, skipped_kinds
from embedx.text.sentences import encode_sentences
from embedx.text.settings import PhraseSettings, TextSettings
from embedx.text.sources import OF_ARCHIVE, Source, current_fingerprint, find_sources, is_url
from embedx.text.tokenizer import MAX_WORD_BYTES

# names of corpora, or sentences as lists of tokens
Corpora = str | Path | Sequence[str | Path] | Iterable[Sequence[str]]


def encode(
    corpora: Corpora,
    text: TextSettings,
    progress: Progress,
    cache_dir: Path | None,
    phrases: PhraseSettings | Phrases | None = None,
    *,
    threads: int | None = None,
) -> EncodedCorpus:
    """Encode corpora as provisional token ids, or take them from the token cache.

    threads     number of reading threads; by default one per core
    phrases     collocations to join: settings to find them in these corpora, or those joined in
                another corpus; None joins nothing
    """
    if isinstance(corpora, str | Path):
        corpora = [corpora]
    _check_several(corpora)
    if isinstance(corpora, Sequence) and any(isinstance(name, str | Path) for name in corpora):
        names = _checked_names(corpora)
        corpus = encode_sources(find_sources(names), text, progress, cache_dir, threads)
    else:
        sentences = cast(Iterable[Sequence[str]], corpora)
        corpus = encode_sentences(sentences, progress, cache_dir, text.normalize)
    if not phrases or (isinstance(phrases, PhraseSettings) and phrases.phrases == 0):
        return corpus
    return with_phrases(corpus, phrases, progress, cache_dir)


def _check_several(corpora: object) -> None:
    """Raise `DataError` unless the corpora are iterable, and no data frame, whose items are its
    columns.
    """
    if hasattr(corpora, "columns"):
        remedy = "give lists of words, such as [text.split() for text in frame[column]]"
        raise DataError("corpora", None, "a data frame, not texts", remedy)
    if isinstance(corpora, bytes) or not isinstance(corpora, Iterable):
        problem = f"{reprlib.repr(corpora)} is neither names of files nor lists of words"
        raise DataError("corpora", None, problem, "give names, or a list of lists of words")


def _checked_names(corpora: Sequence[object]) -> list[str]:
    """The names of corpora. Raises `DataError` for sentences, as lists or strings, among them."""
    for corpus in corpora:
        if not isinstance(corpus, str | Path):
            problem = f"{reprlib.repr(corpus)} among names of files"
            raise DataError("corpora", None, problem, "give either names or lists of words")
        name = str(corpus)
        if len(name.split()) > 1 and not _may_be_name(name):
            problem = f"{reprlib.repr(name)} is no file, and a sentence is a list of words"
            raise DataError("corpora", None, problem, "split sentences into words, or check names")
    return [str(name) for name in corpora]


def _may_be_name(text: str) -> bool:
    """Whether a string with spaces may name a file, a URL, a glob or members of an archive."""
    if os.path.exists(text) or is_url(text) or OF_ARCHIVE.fullmatch(text):
        return True
    return bool(glob.glob(text, recursive=True))


def encode_sources(
    sources: Sequence[Source],
    settings: TextSettings,
    progress: Progress = SILENT,
    cache_dir: Path | None = None,
    threads: int | None = None,
    watch: Watch | None = None,
) -> EncodedCorpus:
    """Encode sources as provisional token ids. If they are not in the token cache, each is read
    once, counted and written to the cache.

    Sources without a fingerprint (standard input, a pipe, a file that changes while it is read)
    become a temporary corpus.

    threads  number of reading threads and, for Wikipedia dumps, of processes; by default one per
             core. It changes neither the tokens nor their order
    watch    receives the text, which is then read even if its tokens are in the cache
    """
    key = cache.cache_key(sources, settings)
    corpus = cache.kept(key, cache_dir, progress) if watch is None else None
    if corpus is not None:
        progress.detail(f"{_size(corpus)} from {corpus.place}; nothing is read")
        _note_urls(corpus, sources, progress)
    else:
        with CorpusWriter(cache.folders(cache_dir)[0]) as writer:
            report = read(sources, settings, progress, writer, threads or usable_cores(), watch)
            check_has_words(report, sources, settings)
            if any(source.fingerprint != current_fingerprint(source) for source in sources):
                key = ""
            corpus = writer.finish(report, settings.record(), key, progress)
        progress.detail(f"{_size(corpus)} written to {corpus.place}")
    _note_folders(corpus.report, sources, progress)
    _note_damage(corpus.report, settings, progress)
    return corpus


def _note_urls(corpus: EncodedCorpus, sources: Sequence[Source], progress: Progress) -> None:
    """Note when the first URL was read: the server may have another text by now."""
    urls = [source.name for source in sources if is_url(source.name)]
    if urls:
        day, _, time = corpus.created.partition("T")
        others = f" and {counted(len(urls) - 1, 'other URL')}" if len(urls) > 1 else ""
        progress.note(
            f"{urls[0]}{others}: the text of {day} {time[:5]} UTC is used, from the token cache;"
            " `embedx cache clear` has it read again"
        )


def _note_folders(report: Record, sources: Sequence[Source], progress: Progress) -> None:
    """Note for each folder how many files were read and which were skipped."""
    not_text = {source.folder: source.left_out for source in sources if source.folder}
    for folder, left_out in not_text.items():
        reports = [
            source_report
            for source_report, source in zip(report["sources"], sources, strict=True)
            if source.folder == folder
        ]
        n_read = sum(not source_report["skipped"] for source_report in reports)
        skipped = [kinds for kinds in (skipped_kinds(reports), left_out) if kinds]
        progress.note(
            f"{folder}: {counted(n_read, 'file')} read; skipped: ", joined(skipped, ", ") or "none"
        )


def _note_damage(report: Record, settings: TextSettings, progress: Progress) -> None:
    """Note how the sources were read, what was skipped, and the number of damaged places."""
    remedies = {"replace": "replaced by U+FFFD", "skip": "skipped"}
    for source in report["sources"]:
        name = source["name"]
        if source["note"]:
            progress.note(f"{name}: {source['note']}")
        if source["warning"]:
            progress.warn(f"{name}: {source['warning']}")
        if source["bad_utf8"]:
            places = counted(source["bad_utf8"], "place")
            first = f"the first is at byte {source['first_bad_byte']} of the (unpacked) text"
            damage = f"{name}: {places} not UTF-8, {remedies[settings.on_bad_utf8]}; {first}"
            progress.note(f"{damage}; if the text has another encoding {TO_UTF8}")
        if source["bad_records"]:
            records = counted(source["bad_records"], "record")
            progress.note(f"{name}: {records} skipped; the first: {source['first_bad_record']}")
        if source["too_long"]:
            words = counted(source["too_long"], "word")
            progress.note(
                f"{name}: {words} of more than {MAX_WORD_BYTES:,} bytes left out; is all of it"
                " text?"
            )


def _size(corpus: EncodedCorpus) -> str:
    """The size of a corpus, such as "2,000 tokens of 300 words (0.1 MB)"."""
    megabytes = f"{corpus.bytes / 1e6:,.1f} MB"
    return f"{corpus.n_tokens:,} tokens of {len(corpus.counts):,} words ({megabytes})"
