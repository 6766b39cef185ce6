"""The commands and the Python of the documentation run, and print what is shown."""

import contextlib
import gzip
import io
import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix, save_npz

from embedx.cli.app import application
from embedx.comparison import runs
from embedx.text import cache
from tests.support import forked
from tests.support.checkpoints import end_at_a_checkpoint
from tests.support.commands import run_command
from tests.support.doc_pages import NOTEBOOKS, PAGES, ROOT, TRAINING, blocks, cells
from tests.support.forked import environment
from tests.support.label_data import write_xc
from tests.support.needs import needs_gensim


def sentences(seed: int, n: int, *more: str) -> list[list[str]]:
    """Text about a city, or about music."""
    rng = random.Random(seed)
    city = [
        "city",
        "town",
        "street",
        "river",
        "bridge",
        "station",
        "harbour",
        "new york",
        "bank of england",
    ]
    topics = (
        city,
        ["music", "song", "band", "guitar", "piano", "concert", "singer", "violin", *more],
    )
    common = ["the", "a", "and", "is", "in", "of"]
    lengths = [rng.randint(4, 20) for _ in range(n)]
    return [
        " ".join(rng.choices(rng.choice(topics) + common, k=length)).split() for length in lengths
    ]


def labelled(
    seed: int, n: int, n_labels: int = 120, n_features: int = 300
) -> tuple[csr_matrix, list[list[int]]]:
    """Rows whose labels have features of their own."""
    rng = np.random.default_rng(seed)
    labels = [
        sorted(rng.choice(n_labels, size=rng.integers(1, 4), replace=False).tolist())
        for _ in range(n)
    ]
    rows = np.zeros((n, n_features), np.float32)
    for row, of_row in zip(rows, labels, strict=True):
        for label in of_row:
            row[[(7 * label) % n_features, (11 * label + 3) % n_features]] += 1
        row[rng.integers(0, n_features, size=3)] += 0.2
    return csr_matrix(rows / np.linalg.norm(rows, axis=1, keepdims=True)), labels


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The files that the pages name."""
    folder = tmp_path_factory.mktemp("docs")
    text = sentences(1, 3000)
    corpus = "\n".join(map(" ".join, text)) + "\n"
    (folder / "corpus.txt").write_text(corpus)
    (folder / "more.txt").write_text("\n".join(map(" ".join, sentences(2, 1000, "trumpet"))) + "\n")
    (folder / "other.txt").write_text("\n".join(map(" ".join, sentences(3, 300))) + "\n")
    (folder / "words.txt").write_text("city\nmusic\nthe\nriver\nsong\n")
    (folder / "shards").mkdir()
    with gzip.open(folder / "shards" / "a.gz", "wt") as out:
        out.write(corpus)
    with zipfile.ZipFile(folder / "texts.zip", "w") as archive:
        archive.writestr("en/a.txt", corpus)
    with gzip.open(folder / "documents-1.jsonl.gz", "wt") as out:
        out.write(
            "".join(
                json.dumps({"id": i, "text": " ".join(words)}) + "\n"
                for i, words in enumerate(text[:500])
            )
        )
    (folder / "reviews.csv").write_text(
        "stars,text\n" + "".join(f'5,"{" ".join(words)}"\n' for words in text[:500])
    )
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(
        pyarrow.table({"products": [sorted(set(words)) for words in text[:500]]}),
        folder / "baskets.parquet",
    )
    pairs = (
        "city\triver\t8.1\nmusic\tsong\t9.0\ncity\tsong\t1.2\n"
        "bridge\tguitar\t0.8\nriver\tbridge\t6.5\nband\tmusic\t8\n"
    )
    for name in ("pairs.txt", "others.txt"):
        (folder / name).write_text(pairs)
    rows, labels = labelled(1, 900)
    write_xc(folder / "train.txt", rows, labels)
    for name, seed in (("test.txt", 2), ("new-rows.txt", 3)):
        write_xc(folder / name, *labelled(seed, 100))
    save_npz(folder / "rows.npz", rows)
    indicators = np.zeros((len(labels), 120), np.float32)
    for row, of_row in zip(indicators, labels, strict=True):
        row[of_row] = 1
    save_npz(folder / "indicators.npz", csr_matrix(indicators))
    reviews = [
        f"__label__{'good' if words[0] < 'm' else 'bad'} {' '.join(words)}" for words in text
    ]
    (folder / "reviews.txt").write_text("\n".join(reviews[:400]) + "\n")
    lines = [
        f'{k},{"ab"[words[0] < "m"]},"{", ".join(words)}"' for k, words in enumerate(text[:300])
    ]
    (folder / "tickets.csv").write_text("\n".join(["id,topic,text", *lines]) + "\n")
    (folder / "more-reviews.txt").write_text("\n".join(reviews[400:450]) + "\n")
    edges = [
        (a, b) for a in range(40) for b in range(a) if (a - b) % 7 in (1, 3) or a // 20 == b // 20
    ]
    (folder / "graph.edges").write_text("".join(f"{a} {b}\n" for a, b in edges[::2]))
    (folder / "graph.csv").write_text("".join(f"{a},{b},{1 + a % 3}\n" for a, b in edges))
    (folder / "held-out.edges").write_text("".join(f"{a} {b}\n" for a, b in edges[1:200:2]))
    (folder / "no.edges").write_text("".join(f"{a} {a + 20}\n" for a in range(19)))
    (folder / "node-labels.txt").write_text(
        "".join(f"{a} {'low' if a < 20 else 'high'}\n" for a in range(40))
    )
    rows = (f"{user},{word},{60 * user}" for user, line in enumerate(text[:500]) for word in line)
    (folder / "orders.csv").write_text("user,item,time\n" + "\n".join(rows) + "\n")
    baskets = [["bread", "butter", "jam"]] * 20
    for name, sessions in (("sessions.txt", text[:500] + baskets), ("next.txt", text[500:550])):
        (folder / name).write_text("\n".join(map(" ".join, sessions)) + "\n")
    from sklearn.datasets import load_digits

    images, digits = load_digits(return_X_y=True)
    np.save(folder / "images.npy", (images / 16).astype(np.float32))
    np.save(folder / "labels.npy", digits.astype(np.int64))
    return folder


@pytest.fixture
def place(data, tmp_path, monkeypatch):
    """A folder with the data, to run a page in."""
    for file in data.iterdir():
        (tmp_path / file.name).symlink_to(file)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(ROOT)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setattr(cache, "default_folders", lambda: (tmp_path / "cache" / "tokens",))
    monkeypatch.setattr(runs, "watched", forked.watched)
    for name in ("EMBEDX_CACHE_DIR", "NUMBA_CACHE_DIR"):
        monkeypatch.setenv(name, environment(tmp_path)[name])  # for processes that commands start
    return tmp_path


SHOWN_ON_TERMINALS = ("eval",)  # as it is there, not as it is in a pipe


class Terminal(io.StringIO):
    """Standard output as a terminal."""

    def isatty(self) -> bool:
        return True


# a command that reads a file or writes one, which a shell would open
REDIRECTED = re.compile(
    r"(?:cat (?P<input>\S+) \| )?embedx (?P<words>[^|>]+?)(?: > (?P<output>\S+))?"
)


def run(line: str, extra: list[str], place: Path) -> str:
    """What a command prints on standard output.

    Only `train` and commands before a pipe run in a shell: their streams have to be pipes.
    """
    redirected = REDIRECTED.fullmatch(line)
    if redirected and line != f"embedx {redirected['words']}" and " train " not in line:
        return run_redirected(redirected, extra, place)
    if "|" in line or " > " in line or not line.startswith("embedx "):
        shell = re.sub(r"(?<![\w.])embedx ", f"{shlex.quote(sys.executable)} -m embedx ", line)
        return process(["sh", "-c", " ".join([shell, *extra])], place)
    name, *words = shlex.split(line)[1:]
    if name in TRAINING:
        words += (
            [*without_epochs(extra), "--time-budget", "0.5s"] if "--time-budget" in words else extra
        )
    output = Terminal() if name in SHOWN_ON_TERMINALS else io.StringIO()
    with contextlib.redirect_stdout(output):
        application([name, *words])(args=[name, *words], prog_name="embedx", standalone_mode=False)
    return output.getvalue()


def run_redirected(redirected: re.Match[str], extra: list[str], place: Path) -> str:
    """Run `cat INPUT | embedx WORDS > OUTPUT` in this process."""
    text = (place / redirected["input"]).read_text("utf-8") if redirected["input"] else ""
    printed = run_command(place, *shlex.split(redirected["words"]), *extra, input=text).stdout
    if not redirected["output"]:
        return printed
    (place / redirected["output"]).write_text(printed, "utf-8")
    return ""


def process(words: list[str], place: Path) -> str:
    """What a process prints on standard output."""
    completed = subprocess.run(
        words,
        cwd=place,
        env=environment(place),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert completed.returncode == 0, completed.stderr
    return completed.stdout


def without_epochs(extra: list[str]) -> list[str]:
    """Options without the number of epochs, where the time says when to stop."""
    at = extra.index("--epochs") if "--epochs" in extra else len(extra)
    return extra[:at] + extra[at + 2 :]


# How far decimals may be from those shown: docs/tour.md says so of cosines and correlations.
SPREAD = {"train": 0.08, "nn": 0.08, "analogy": 0.08, "eval": 0.04, "predict": 0.08}
PERCENT = 1.5
NUMBER = re.compile(r"(?<!\w)-?\d[\d,]*(?:\.\d+)?(?!\w)")


def assert_alike(line: str, shown: list[str], printed: str, place: Path) -> None:
    """The same lines as the page shows, in whatever order, with the same words and integers, and
    decimals within SPREAD.
    """

    def comparable(text: str) -> list[str]:
        return sorted(
            " ".join(re.sub(r"[\d,]+ words/s", "words/s", line).split())
            for line in text.splitlines()
        )

    expected_lines = comparable("\n".join(shown).replace("/home/you", str(place)))
    output_lines = comparable(printed)
    assert [NUMBER.sub("N", line) for line in expected_lines] == [
        NUMBER.sub("N", line) for line in output_lines
    ], printed
    for expected_line, output_line in zip(expected_lines, output_lines, strict=True):
        spread = PERCENT if "%" in expected_line else SPREAD[line.split()[1]]
        numbers = NUMBER.findall(output_line)
        for expected, number in zip(NUMBER.findall(expected_line), numbers, strict=True):
            is_near = "." in expected and abs(float(expected) - float(number)) <= spread
            assert expected == number or is_near, f"{line}: {output_line}"


@pytest.mark.parametrize("printed", ["b\t0.69\nc\t0.52\n", "b\t0.60\nd\t0.52\n", "b\t0.60\n"])
def test_an_outdated_transcript_is_noticed(printed):
    shown = ["c\t0.55", "b\t0.60"]
    # in another order, decimals within the spread
    assert_alike("embedx nn model a", shown, "b\t0.61\nc\t0.52\n", Path())
    with pytest.raises(AssertionError):
        assert_alike("embedx nn model a", shown, printed, Path())


# which needs data
@pytest.mark.parametrize("name", [name for name in NOTEBOOKS if name != "eurlex"])
def test_the_cells_of_a_notebook_run(name, place, monkeypatch):
    (place / "notebook").mkdir()
    monkeypatch.chdir(place / "notebook")
    names: dict[str, Any] = {}
    for cell in cells(name):
        if cell.startswith("!"):
            for line in cell.splitlines():
                run(line[1:], [], Path.cwd())
        else:
            exec(compile(cell, name, "exec"), names)
    assert names["share"] > 0.8


NEED_GENSIM = {"index", "tour", "evaluating", "coming-from"}


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=needs_gensim) if page in NEED_GENSIM else page
        for page in PAGES
        if any(block.runs and block.language != "text" for block in blocks(page))
    ],
)
def test_the_blocks_of_a_page_run(page, place):
    from embedx.objectives import OBJECTIVES
    from embedx.samplers import SAMPLERS

    names: dict[str, Any] = {}
    registries = [(registry, dict(registry)) for registry in (OBJECTIVES, SAMPLERS)]
    try:
        for block in blocks(page):
            if not block.runs:
                continue
            if block.language == "python":
                if "run in" in block.marks:
                    process([sys.executable, "-c", block.text], place)
                else:
                    exec(compile(block.text, page, "exec"), names)
            extra = shlex.split(block.marks.get("run with", ""))
            for line, shown in block.commands():
                assert re.match(r"(cat \S+ \| )?embedx ", line), line
                if "interrupted" in block.marks:
                    code, messages = end_at_a_checkpoint(
                        [*shlex.split(line)[1:], *extra], place, signal.SIGINT
                    )
                    assert code == 130, messages
                    continue
                printed = run(line, extra, place)
                if shown:
                    assert_alike(line, shown, printed, place)
    finally:
        for registry, before in registries:
            registry.clear()
            registry.update(before)
    if page == "extending":
        nearest = {word for word, _ in names["words"].most_similar("city", top_k=3)}
        assert nearest <= {
            "town",
            "street",
            "river",
            "bridge",
            "station",
            "harbour",
            "new",
            "york",
            "bank",
            "england",
        }
        assert names["classifier"].score(names["X"] / 16, names["y"]) > 0.8
    if page == "runs":
        assert not json.loads((place / "long.embedx" / "model.json").read_text())["facts"][
            "interrupted"
        ]
