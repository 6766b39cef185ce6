"""A text, in the forms that tools read it, and what is to be known of it."""

import gzip
import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from eval import datasets, word_tests
from eval.experiment import Run, stop

# words a line in the copy for tools that read by line; fastText cuts lines at 1024, gensim's at
# 10,000
LINE_WORDS = 1000
# bytes; gensim drops what a sentence has beyond 10,000 words, and corpus_file reads a line at a
# time
LONG_LINE = 50_000
QUICK = 2_000_000  # bytes of a trial run
TINY = 100_000
# of the text that stands for a corpus in a trial run
GENERATED_LINES = 10_000
GENERATED_WORDS = 20
GENERATED_TYPES = 2_000
GENERATED_TOPICS = 5
NEWS = "one-billion-word:heldout"


def of(run: Run) -> Path:
    """The corpus that was named, or the one among the data; the generated text that `unpacked`
    writes where that stands for it.
    """
    if is_generated(run):
        return run.folder / "text"
    if not run.settings.corpus:
        return datasets.text(run.data_folder)
    file = Path(run.settings.corpus)
    if not file.is_file():
        stop(f"{file}: no such file; name a text by --set corpus=FILE")
    return file


def unpacked(run: Run, pools_pairs: bool = True) -> dict[str, Any]:
    """Write `text`, the corpus unpacked, and `tiny`, a little of it, to the run's folder; what is
    to be known of it.

    pools_pairs  whether vectors of its words get a pooled similarity, for which a full run has to
                 have the word pairs
    """
    if pools_pairs:
        word_tests.check_pairs(run)
    text = run.folder / "text"
    tiny = run.folder / "tiny"
    if is_generated(run):
        name = "generated"
        text.write_text(generated_text(), "utf-8")
    else:
        corpus = of(run)
        name = corpus.name
        _unpack(corpus, text, QUICK if run.quick else None)
    with text.open("rb") as source:
        tiny.write_bytes(source.read(TINY))
    run.files |= {"text": str(text), "tiny": str(tiny)}
    if run.has_data:
        run.files["data"] = str(run.data)
    return {"name": name, **facts_of(text)}


def is_generated(run: Run) -> bool:
    """Whether a generated text stands for the corpus: in a trial run where it is not here."""
    is_here = run.settings.corpus or datasets.is_here(datasets.TEXT, run.data_folder)
    return run.quick and not is_here


def generated_text() -> str:
    """Lines of made-up words, drawn by Zipf's law around a topic of each line."""
    rng = np.random.default_rng(1)
    ranks = np.exp(rng.random((GENERATED_LINES, GENERATED_WORDS)) * np.log(GENERATED_TYPES))
    topics = rng.integers(GENERATED_TOPICS, size=(GENERATED_LINES, 1))
    topics = np.where(rng.random(ranks.shape) < 0.5, topics, 0)
    lines = zip(ranks.astype(int).tolist(), topics.tolist(), strict=True)
    return "".join(
        " ".join(f"w{rank}t{topic}" for rank, topic in zip(*line, strict=True)) + "\n"
        for line in lines
    )


def _unpack(corpus: Path, text: Path, n_bytes: int | None) -> None:
    """Write a corpus, or its first bytes, unpacked."""
    opened = gzip.open if corpus.suffix == ".gz" else open
    with opened(corpus, "rb") as source, text.open("wb") as target:
        if n_bytes is None:
            shutil.copyfileobj(source, target, 1 << 20)
        else:
            target.write(source.read(n_bytes))


def beginning(run: Run, text: Path, end: bytes, megabytes: float) -> dict[str, Any]:
    """Write `beginning`, so many megabytes of a text up to a word or a line; what is to be known of
    it.
    """
    target = run.folder / "beginning"
    with text.open("rb") as source:
        n_bytes = int(megabytes * 1e6)
        target.write_bytes(first(source.read(n_bytes), n_bytes, end))
    run.files["beginning"] = str(target)
    return facts_of(target)


def first(text: bytes, n_bytes: int, end: bytes = b" ") -> bytes:
    """The first bytes of a text, up to a word or a line."""
    return text[:n_bytes].rpartition(end)[0] + end


def last(text: bytes, n_bytes: int) -> bytes:
    """The last bytes of a text, from a word on."""
    return text[-n_bytes:].partition(b" ")[2]


def news(run: Run, n_bytes: int) -> bytes:
    """The first sentences of news: of the setting `news`, or of One Billion Words' held-out shard;
    made-up ones in a trial run where these are not here.
    """
    if run.quick and not datasets.is_here(NEWS, run.data_folder):
        return generated_text().encode()[:n_bytes]
    file = Path(run.settings.news or datasets.text(run.data_folder, NEWS))
    opened = gzip.open if file.suffix == ".gz" else open
    with opened(file, "rb") as source:
        return first(source.read(n_bytes), n_bytes, b"\n")


def compress(file: Path, target: Path) -> None:
    with file.open("rb") as source, gzip.open(target, "wb") as out:
        shutil.copyfileobj(source, out, 1 << 20)


def facts_of(text: Path) -> dict[str, Any]:
    """Size, words, hash, and whether a line is so long that tools reading by line would choke on
    it.
    """
    digest = hashlib.sha256()
    n_words = 0
    line = longest = 0  # bytes
    for words, block in blocks_of_words(text):
        digest.update(block)
        n_words += len(words)
        first, *others = block.split(b"\n")
        line += len(first)
        longest = max(longest, line, *map(len, others))
        line = len(others[-1]) if others else line
    return {
        "bytes": text.stat().st_size,
        "words": n_words,
        "sha256": digest.hexdigest(),
        "one line": longest > LONG_LINE,
    }


def blocks_of_words(text: Path) -> Iterator[tuple[list[bytes], bytes]]:
    """(words, bytes read) a megabyte at a time; no word is cut."""
    rest = b""
    with text.open("rb") as file:
        while block := file.read(1 << 20):
            words_text = rest + block
            end = max(words_text.rfind(b" "), words_text.rfind(b"\n")) + 1
            rest = words_text[end:]
            yield words_text[:end].split(), block
    yield rest.split(), b""


def write_lines(text: Path, lines: Path) -> None:
    """The same words, so many a line."""
    pending: list[bytes] = []
    with lines.open("wb") as file:
        for words, _ in blocks_of_words(text):
            pending += words
            while len(pending) >= LINE_WORDS:
                file.write(b" ".join(pending[:LINE_WORDS]) + b"\n")
                del pending[:LINE_WORDS]
        if pending:
            file.write(b" ".join(pending) + b"\n")
