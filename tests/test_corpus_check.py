"""What `embedx corpus check` finds in a text, and says of the training to come."""

import re
import tempfile
from pathlib import Path

import numpy as np
import pytest

from embedx.runtime import memory
from embedx.skipgram.configuration import configure
from embedx.skipgram.corpus_report import check, table, vocabulary_coverage
from embedx.text import counting, inspection
from embedx.text.inspection import Inspector
from embedx.text.settings import VocabularySettings
from tests.support import word_training
from tests.support.commands import run_command
from tests.support.notes import Notes
from tests.support.refusals import refused_data


def place(source, line, byte):
    return {"source": source, "line": line, "byte": byte}


MOJIBAKE = "é".encode().decode("latin-1").encode()  # Ã©


def findings(*texts, size=7):
    """The findings in texts, each a source, read in blocks of `size` words."""
    with tempfile.TemporaryDirectory() as folder:
        return found_in(Inspector(Path(folder)), texts, size)


def found_in(inspector, texts, size):
    for number, text in enumerate(texts):
        words = re.findall(rb"[^ \n]*[ \n]|[^ \n]+", text)
        for first in range(0, len(words), size):
            inspector.feed(f"text {number}", b"".join(words[first : first + size]), is_last=False)
        inspector.feed(f"text {number}", b"", is_last=True)
    return inspector.findings()


def row_of(text, name):
    """A row of the table that is printed of a text; None if it has none."""
    record = {"text": findings(text), "tokens": 1, "vocabulary": [], "sample": 0}
    needs = {"memory": {}, "available": 1, "fits": True, "disk_free": 1}
    record["training"] = needs | {"disk": {"model": 0, "checkpoints": 0, "encoded text": 0}}
    rows = dict(line.split("\t") for line in table(record).splitlines())
    return rows.get(name)


@pytest.mark.parametrize(
    ("text", "composed", "decomposed"),
    [
        ("caf\u00e9 cafe\u0301 na\u00efve\n", 2, 1),
        ("e\u0302\u0301 \u1ebf\n", 1, 1),
        ("\ud55c\uae00 \u1112\u1161\u11ab\n", 2, 1),
        ("plain text, \u0928\u093e\u092e and a \u0301\n", 0, 0),
    ],
)
def test_composed_and_decomposed_letters_are_counted(text, composed, decomposed):
    report = findings(text.encode(), size=2)
    assert (report["composed"], report["decomposed"]) == (composed, decomposed)
    is_mixed = composed > 0 and decomposed > 0
    assert (row_of(text.encode(), "Unicode forms") is not None) is is_mixed


@pytest.mark.parametrize(
    ("text", "times"),
    [(b"one\rtwo words\rthree\n", 2), (b"one\r\ntwo words\r\n", 0), (b"one\ntwo\n", 0)],
)
def test_line_ends_of_cr_alone_are_reported(text, times):
    assert findings(text, size=1)["carriage_returns"] == times
    assert (row_of(text, "line ends") is not None) is (times > 0)


@pytest.mark.parametrize("size", [1, 3, 10_000])
def test_damage_is_found_with_its_places_however_the_text_is_cut(size):
    text = (
        b"fine\nb\xe4d \xff\nlost \xef\xbf\xbd\n\x00 and \xc2\x85\ncaf"
        + MOJIBAKE
        + b"\nna\xc3\xafve, \xc2\xa9 \t\r\n\xe2\x82"
    )
    report = findings(b"\n", text, size=size)
    assert report["counts"] == {
        "not UTF-8": 3,
        "replaced": 1,
        "wrongly decoded": 1,
        "control characters": 2,
        "giant lines": 0,
    }
    assert report["places"]["not UTF-8"] == [
        place("text 1", 2, 6),
        place("text 1", 2, 9),
        place("text 1", 7, len(text) - 2),
    ]
    assert report["places"]["replaced"] == [place("text 1", 3, text.index(b"\xef"))]
    controls = [place("text 1", 4, text.index(control)) for control in (b"\0", b"\xc2\x85")]
    assert report["places"]["control characters"] == controls
    assert report["places"]["wrongly decoded"] == [place("text 1", 5, text.index(MOJIBAKE))]
    assert (report["n_lines"], report["n_bytes"]) == (8, len(text) + 1)


def test_only_the_first_places_are_kept():
    report = findings(b"\xff" * 10, b"\xff")
    assert report["counts"]["not UTF-8"] == 11
    assert report["places"]["not UTF-8"] == [
        place("text 0", 1, n) for n in range(inspection.MAX_PLACES)
    ]


def test_giant_lines_are_reported():
    text = b"short\n" + b"x" * (inspection.MAX_LINE_BYTES + 1) + b"\n" + b"y" * 100
    report = findings(b"z" * 50, text, size=100_000)
    assert (report["counts"]["giant lines"], report["places"]["giant lines"]) == (
        1,
        [place("text 1", 2, 6)],
    )


def test_repeated_lines_are_counted_over_all_sources():
    report = findings(b"one line\nanother\n\n\none line", b"one line\n\nshort\n")
    assert report["repeated_lines"] == pytest.approx(2 / 5)


def test_repeated_lines_are_counted_exactly_in_little_memory(monkeypatch):
    monkeypatch.setattr(inspection, "LINE_MEMORY", 1000)
    monkeypatch.setattr(counting, "MIN_ENTRIES_PER_RANGE", 100)
    rng = np.random.default_rng(0)
    lines = [b"line %d" % n for n in rng.integers(0, 20_000, 40_000)]
    report = findings(b"\n".join(lines), size=10_000)
    assert report["repeated_lines"] == pytest.approx(1 - len(set(lines)) / len(lines), rel=1e-12)


def test_scripts_are_shares_of_the_letters():
    report = findings("abc 123 дом, 中文! ά".encode())
    assert report["scripts"] == pytest.approx(
        {"Latin": 3 / 9, "Cyrillic": 3 / 9, "Han": 2 / 9, "Greek": 1 / 9}
    )
    assert list(report["scripts"])[-1] == "Greek"
    assert findings(b"12")["scripts"] == {}
    assert findings("ªй".encode())["scripts"] == pytest.approx(
        {"Feminine": 1 / 2, "Cyrillic": 1 / 2}
    )


def test_every_letter_has_a_script():
    scripts = ["Latin", "Cyrillic", "Hebrew", "Han", "Hangul", "Hiragana", "Katakana", "Javanese"]
    assert [*map(inspection.script, "ßЯא漢가ひカꦄ")] == scripts


def test_coverage_counts_the_words_and_tokens_left_at_each_minimum_count():
    counts = np.array([1, 10, 1, 4, 2])
    lines = vocabulary_coverage(counts, [1, 2, 5, 20], VocabularySettings(sample=0))
    assert [(line["words"], line["tokens"], line["kept"]) for line in lines] == [
        (5, 18, 18),
        (3, 16, 16),
        (1, 10, 10),
        (0, 0, 0),
    ]
    assert [line["share"] for line in lines] == pytest.approx([1, 16 / 18, 10 / 18, 0])
    assert [
        line["words"]
        for line in vocabulary_coverage(counts, [1, 2], VocabularySettings(max_vocab=2))
    ] == [2, 2]
    assert vocabulary_coverage(counts, [2], VocabularySettings(sample=1e-3))[0]["kept"] < 16


def checked(corpus, tmp_path, name="ns", **options):
    config = configure(name, {"dim": 16, "threads": 1, "sample": 0, **options})
    return check(
        [str(corpus)],
        config,
        output=tmp_path / "model",
        cache_dir=tmp_path / "cache",
        progress=Notes(),
    )


def test_a_check_reports_what_training_needs_and_keeps_the_encoded_text(two_topics, tmp_path):
    report, _ = checked(two_topics, tmp_path, epochs=3)
    training = report["training"]
    assert training["words"] == 16
    assert training["tokens"] == training["kept"] == report["tokens"]
    assert training["memory"]["vectors"] == 2 * 16 * 16 * 4
    assert training["disk"]["model"] > training["memory"]["vectors"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache"]
    rows = dict(line.split("\t") for line in table(report).splitlines())
    assert (
        rows["text"]
        == f"{two_topics.stat().st_size:,} bytes, 4,000 lines, {report['tokens']:,} tokens"
    )
    assert rows["--min-count 5"].startswith("16 words, 100.00% of the tokens")

    notes = Notes()
    word_training.train(
        [str(two_topics)],
        configure("ns", {"epochs": 1}),
        cache_dir=tmp_path / "cache",
        progress=notes,
    )
    assert any("nothing is read" in note for note in notes.notes)


def test_a_run_that_does_not_fit_into_memory_is_reported_and_not_started(
    two_topics, tmp_path, monkeypatch
):
    monkeypatch.setattr(memory, "available_memory", lambda: 1000)
    report, _ = checked(two_topics, tmp_path)
    rows = dict(line.split("\t") for line in table(report).splitlines())
    assert "TOO LITTLE" in rows["memory"]


def test_an_empty_text_is_the_error_that_training_makes_of_it(tmp_path):
    (tmp_path / "empty.txt").write_text("\n")
    with refused_data("empty.txt"):
        checked(tmp_path / "empty.txt", tmp_path)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("just a line of text\n", "the highest count is 1"),
        ("... !!! ,,, ???\n", "the highest count is 1"),
        ("word\n" * 100, "no sentence has two words"),
    ],
)
def test_a_text_too_small_to_train_on_is_described_before_the_error_of_training(
    text, problem, write, tmp_path
):
    file = write(text)
    report, error = checked(file, tmp_path)
    assert problem in str(error)
    assert report["training"] is None
    assert report["tokens"] == len(text.split())
    ended = run_command(tmp_path, "corpus", "check", file, check=False)
    assert ended.returncode == 2
    assert "--min-count 1\t" in ended.stdout
    assert problem in ended.stderr
