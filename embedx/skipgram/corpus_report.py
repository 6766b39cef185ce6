"""A corpus before it is trained on: what its text is like, how much of it a vocabulary covers, and
what training will take.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from embedx.errors import EmbedxError
from embedx.pages.plain import tab_separated
from embedx.runtime import disk
from embedx.runtime.progress import SILENT, Progress
from embedx.settings import Record
from embedx.skipgram.configuration import Configuration
from embedx.skipgram.run import WordVectorsRun
from embedx.text import cache
from embedx.text.encode import encode_sources
from embedx.text.encoded_corpus import EncodedCorpus
from embedx.text.inspection import MAX_LINE_BYTES, Inspector
from embedx.text.settings import VocabularySettings
from embedx.text.sources import Source, find_sources
from embedx.text.temporary_folders import errors_explained, workspace
from embedx.text.vocabulary import kept_counts
from embedx.training.checkpoint import KEPT_STATES

MIN_COUNTS = (1, 2, 5, 10, 20, 50, 100)
MIN_SHARE = 0.0005  # of the letters; the table leaves out scripts below it
MEANINGS = {
    "replaced": "U+FFFD, lost before",
    "wrongly decoded": "UTF-8 decoded as Latin-1",
    "giant lines": f"lines above {MAX_LINE_BYTES >> 20} MiB",
}
TOO_LITTLE = ": TOO LITTLE"


def table(report: Record) -> str:
    """The report of `check` for people: a line for each fact, its name before a tab."""
    text = report["text"]
    training = report["training"]
    rows = {
        "text": f"{text['n_bytes']:,} bytes, {text['n_lines']:,} lines, {report['tokens']:,} tokens"
    }
    rows |= {
        MEANINGS.get(kind, kind): f"{n:,}" + _places(text["places"][kind])
        for kind, n in text["counts"].items()
    }
    if text["carriage_returns"]:
        rows["line ends"] = (
            f"{text['carriage_returns']:,} by CR alone, which separates words and ends no line;"
            " convert them with: tr '\\r' '\\n'"
        )
    if text["composed"] and text["decomposed"]:
        rows["Unicode forms"] = (
            f"mixed: {text['composed']:,} letters composed (NFC), {text['decomposed']:,} decomposed"
            " (NFD), so that one word has two spellings; --normalize nfc makes it one"
        )
    rows["repeated lines"] = f"{text['repeated_lines']:.2%} of the lines"
    scripts = [
        f"{name} {share:.2%}" for name, share in text["scripts"].items() if share >= MIN_SHARE
    ]
    rows["scripts"] = ", ".join(scripts) or "no letters"
    for coverage in report["vocabulary"]:
        kept = f"{coverage['kept']:,} after subsampling at {report['sample']:g}"
        rows[f"--min-count {coverage['min_count']}"] = (
            f"{coverage['words']:,} words, {coverage['share']:.2%} of the tokens, {kept}"
        )
    if training is not None:
        rows |= _training_rows(training)
    return "\n".join(tab_separated((name, str(value)) for name, value in rows.items()))


def _training_rows(training: Record) -> dict[str, str]:
    """What training takes, by name."""
    is_short = training["disk"]["model"] + training["disk"]["checkpoints"] > training["disk_free"]
    memory = disk.summary(training["memory"], training["available"])
    if not training["fits"]:
        memory += TOO_LITTLE
    on_disk = disk.summary(training["disk"], training["disk_free"])
    if is_short:
        on_disk += TOO_LITTLE
    return {"memory": memory, "disk": on_disk}


def _training_needs(corpus: EncodedCorpus, config: Configuration, output: Path) -> Record:
    """The words, memory and disk of a run on the corpus."""
    run = WordVectorsRun.resolved(corpus, config, SILENT)
    plan = run.allocate()
    needs = run.on_disk(plan)
    return {
        "words": len(run.vocabulary),
        "tokens": run.vocabulary.n_tokens,
        "kept": int(run.kept.sum()),
        "memory": {name: round(size) for name, size in plan.parts.items()},
        "available": plan.available,
        "fits": plan.fits,
        # Of checkpoints also the one that is being written.
        "disk": {
            "model": needs.model,
            "checkpoints": (KEPT_STATES + 1) * needs.state,
            "encoded text": corpus.bytes,
        },
        "disk_free": disk.free_disk(output),
    }


def check(
    corpora: Sequence[str],
    config: Configuration,
    *,
    output: Path,
    cache_dir: Path | None,
    progress: Progress,
) -> tuple[Record, EmbedxError | None]:
    """Read `corpora` once, with a configuration of `configure`; nothing is written but to the token
    cache, which training then finds filled.

    Returns what the text is like, and the error of `train` on it, if any; `training`, what a run
    takes, is then None. Raises `EmbedxError` for a text that cannot be read or has no words.
    """
    home = cache.folders(cache_dir)[0]
    with workspace(home) as folder:
        inspector = Inspector(folder)

        def watch(source: Source, block: bytes, is_last: bool) -> None:
            with errors_explained(home):
                inspector.feed(source.name, block, is_last)

        with encode_sources(
            find_sources(corpora), config.text, progress, cache_dir, watch=watch
        ) as corpus:
            vocabulary = config.vocabulary
            min_counts = sorted({*MIN_COUNTS, vocabulary.min_count})
            coverages = vocabulary_coverage(corpus.counts, min_counts, vocabulary)
            findings = {
                "corpora": list(corpora),
                "tokens": corpus.n_tokens,
                "text": inspector.findings(),
                "vocabulary": coverages,
                "sample": vocabulary.sample,
                "training": None,
            }
            try:
                findings["training"] = _training_needs(corpus, config, output)
            except EmbedxError as error:
                return findings, error
            return findings, None


def vocabulary_coverage(
    counts: np.ndarray, min_counts: Sequence[int], vocabulary: VocabularySettings
) -> list[Record]:
    """The vocabulary at several minimum counts; `counts` int64 (n_types,), how often each word
    occurs.
    """
    coverages = []
    decreasing = -np.sort(-counts)
    for min_count in min_counts:
        n_frequent = np.count_nonzero(decreasing >= min_count)
        counts_of_words = decreasing[:n_frequent][: vocabulary.max_vocab]
        kept = 0
        if len(counts_of_words):
            kept = int(kept_counts(counts_of_words, vocabulary.sample).sum())
        share = int(counts_of_words.sum()) / max(int(counts.sum()), 1)
        coverages.append(
            {
                "min_count": min_count,
                "words": len(counts_of_words),
                "tokens": int(counts_of_words.sum()),
                "share": share,
                "kept": kept,
            }
        )
    return coverages


def _places(places: Sequence[Record]) -> str:
    if not places:
        return ""
    shown = [f"{place['source']} line {place['line']:,} byte {place['byte']:,}" for place in places]
    return ": " + ", ".join(shown)
