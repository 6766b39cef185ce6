"""The documentation says what is so: its commands and its Python run, and what it states as a
number is one.

A page's blocks run in their order in a folder with small data. What stands in a comment just above
a block changes that:

    <!-- not run: REASON -->                  its embedx commands are parsed alone, and Python
                                              compiled
    <!-- run with: OPTIONS -->                each train, classify and compare gets these options
                                              besides
    <!-- run in: a process of its own -->     not in that of the blocks before
    <!-- interrupted: by Ctrl-C -->           while it trains
"""

import contextlib
import functools
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix, save_npz
from typer.main import get_command

from docs import hooks
from docs.docstrings import as_markdown
from embedx.cli.app import application
from embedx.comparison import runs
from embedx.text import cache
from tests.support import forked
from tests.support.checkpoints import end_at_a_checkpoint
from tests.support.commands import run_command
from tests.support.forked import environment
from tests.support.label_data import write_xc
from tests.support.needs import needs_gensim

ROOT = Path(__file__).parent.parent
PAGES = {path.stem: path for path in sorted((ROOT / "docs").glob("*.md"))}
README = ROOT / "README.md"
FENCE = re.compile(
    r"((?:^<!-- [^\n]+ -->\n)*)^```(\w+)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
LANGUAGES = {"bash", "console", "python", "text", "toml"}
TRAINING = ("train", "classify", "compare")


NOTEBOOKS = {path.stem: path for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))}


def cells(notebook: str) -> list[str]:
    """The code of a notebook; cells that begin with ! have commands alone."""
    notebook_cells = json.loads(NOTEBOOKS[notebook].read_text("utf-8"))["cells"]
    return [
        "".join(cell["source"]).replace("\\\n", "")
        for cell in notebook_cells
        if cell["cell_type"] == "code"
    ]


@dataclass(frozen=True)
class Block:
    """A block of code on a page."""

    language: str
    text: str
    marks: dict[str, str]  # what the comments above it say

    @property
    def runs(self) -> bool:
        return "not run" not in self.marks

    def commands(self) -> list[tuple[str, list[str]]]:
        """The commands, each with the output that is shown under it."""
        if self.language not in ("bash", "console"):
            return []
        lines = self.text.replace("\\\n", "").splitlines()
        if self.language == "bash":
            return [(line.split(" #")[0].strip(), []) for line in lines]
        listed: list[tuple[str, list[str]]] = []
        for line in lines:
            if line.startswith("$ "):
                listed.append((line[2:], []))
            else:
                listed[-1][1].append(line)
        return listed


def blocks(page: str) -> list[Block]:
    text = (README if page == "README" else PAGES[page]).read_text("utf-8")
    mark = re.compile(r"<!-- ([a-z ]+): (.+) -->")
    code_blocks = [
        Block(language, code, dict(mark.findall(above)))
        for above, language, code in FENCE.findall(text)
    ]
    assert len(code_blocks) * 2 == len(re.findall("^ *```", text, re.MULTILINE)), (
        "a block without a language"
    )
    return code_blocks


# ---- what is shown exists


def own_commands() -> list[str]:
    """Every embedx command of the README and the pages, the parts of a pipe each by itself."""
    shown = [
        line
        for page in ("README", *PAGES)
        for block in blocks(page)
        for line, _ in block.commands()
    ]
    shown += [
        line.lstrip("!")
        for name in NOTEBOOKS
        for cell in cells(name)
        for line in cell.splitlines()
        if line[:1] == "!"
    ]
    parts = [part.strip() for line in shown for part in re.split(r" (?:&&|\||>) |^time ", line)]
    return sorted({part for part in parts if part.startswith("embedx ")})


@pytest.mark.parametrize("line", own_commands())
def test_every_command_of_the_pages_is_understood(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.toml").write_text("dim = 50\n")  # --config is read along with the options
    command, words = command_of(shlex.split(line)[1:])
    # refuses options that there are not, and values that are none
    command.make_context(command.name, words)


def command_of(words: list[str]) -> tuple[Any, list[str]]:
    """The command that the first of these words name, and the others."""
    command = program(*words[: 1 + (words[0] in ("corpus", "cache"))])
    while getattr(command, "commands", None):
        command = command.commands[words[0]]
        words = words[1:]
    return command, words


@functools.cache
def program(*words: str) -> Any:
    """All commands, the one that these words name with its settings."""
    return get_command(application(words))


def test_blocks_of_pages_have_known_languages_and_marks():
    marks = {"not run", "run with", "run in", "interrupted"}
    for page in PAGES:
        for block in blocks(page):
            assert block.language in LANGUAGES, page
            assert block.marks.keys() <= marks, page
            if block.language == "python":
                compile(block.text, page, "exec")
    assert len(own_commands()) > 60


def test_options_named_in_the_text_exist():
    # of `python -m eval`
    known = {"--help", "--help-all", "--version", "--quick", "--report-only", "--data", "--only"}
    known |= {"--minutes", "--runs"}  # of `python -m tests.fuzz` and its like
    known |= {"--write-messages"}  # of pytest
    known |= {
        option for parameter in get_command(application([])).params for option in parameter.opts
    }
    others = [
        "phrases",
        "predict",
        "eval",
        "export",
        "report",
        "corpus check",
        "corpus fetch",
        "corpus sessions",
        "nn",
    ]
    for line in [*TRAINING, *others]:
        for parameter in command_of(line.split())[0].params:
            known |= {*parameter.opts, *parameter.secondary_opts}
    # of PECOS
    foreign = {
        "--nr-splits",
        "--max-leaf-size",
        "--negative-sampling",
        "--threshold",
        "--beam-size",
    }
    of_ray = {"--object-store-memory"}
    for page, path in PAGES.items():
        text = FENCE.sub("", path.read_text("utf-8"))
        named = set(
            re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", " ".join(re.findall(r"`([^`\n]+)`", text)))
        )
        unknown = named - known - of_ray - (foreign if page == "coming-from" else set())
        assert not unknown, page


def test_the_experiments_and_files_named_in_the_pages_exist():
    from eval.__main__ import EXPERIMENTS

    named = set(re.findall(r"python -m eval ([\w-]+)", PAGES["papers"].read_text("utf-8")))
    assert (
        {name for name in EXPERIMENTS if name.startswith("papers-")}
        <= named
        <= {*EXPERIMENTS, "data"}
    )
    for path in PAGES.values():
        files = re.findall(
            r"(?:embedx|eval|tests|docs|corpora)/[\w/.-]+\.\w+", path.read_text("utf-8")
        )
        for file in files:
            assert (ROOT / file).is_file(), f"{path.name}: {file}"


def test_numbers_stated_in_the_pages_are_those_of_the_package():
    from embedx.classification.label_weights import MAX_DENSE, MAX_DENSE_SAMPLED
    from embedx.evaluation.heldout import PAIRS
    from embedx.skipgram.strategies import CHUNK
    from embedx.text.heldout import BORDER, PIECE
    from embedx.training.checkpoint import KEPT_STATES
    from embedx.training.guard import CHECKS_OF_RUN, DIVISORS

    def states(page, sentence):
        assert sentence in " ".join(PAGES[page].read_text("utf-8").split())

    states("objectives", "only if at most a twentieth of the feature values are non-zero")
    assert (MAX_DENSE, MAX_DENSE_SAMPLED) == (10_000_000, 250_000_000)
    states("labels", "from ten million weights on (`ova`), or 250 million (others)")
    states("words", f"chunks of {CHUNK:,} tokens")
    states("evaluating", f"up to {BORDER * PIECE:,} words")
    states("evaluating", f"up to {PAIRS:,} pairs")
    assert (KEPT_STATES, CHECKS_OF_RUN, DIVISORS[:2]) == (2, 20, (10, 100))
    states("runs", "The last two checkpoints are kept")
    states("runs", "After each twentieth of the run")


# ---- what is made from the package


def test_every_part_that_a_page_asks_for_is_made_of_all_objectives_with_scores():
    from embedx.objectives import OBJECTIVES, measured

    text = PAGES["objectives"].read_text("utf-8")
    assert "| `--start` | " in hooks.filled(PAGES["commands"].read_text("utf-8"))
    extending = hooks.filled(PAGES["extending"].read_text("utf-8"))
    assert "class Hinge(Objective)" in extending
    assert "class LogUniform(AliasSampler)" in extending
    assert "The contract between a sampler and the engine" in extending
    assert not re.search(r"<!-- (docstring|example):", extending)
    scores, described = text.split("## Measured on words")[1].split("## All objectives")
    for name, record in measured()["objectives"].items():
        assert f"| `{name}` | {record['log_likelihood']:.3f} |" in scores
    for name, objective in OBJECTIVES.items():
        assert f"| `{name}` |" in described
        assert objective.about.advice in described
        assert objective.about.words_caution in described
        assert f"`{objective.about.formula}`" in described


def test_lists_of_docstrings_become_lists_and_other_lines_stay():
    text = (
        "What it is.\n\nx     the first,\n      at length\ny, z  others\n\nlast  words of a"
        " list\n\nNo list."
    )
    assert as_markdown(text).splitlines() == [
        "What it is.",
        "",
        "",
        "- `x`: the first,",
        "  at length",
        "- `y, z`: others",
        "",
        "",
        "- `last`: words of a list",
        "",
        "No list.",
    ]


# ---- what is shown runs


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
    for name, some in (("sessions.txt", text[:500] + baskets), ("next.txt", text[500:550])):
        (folder / name).write_text("\n".join(map(" ".join, some)) + "\n")
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
    for one, other in zip(expected_lines, output_lines, strict=True):
        spread = PERCENT if "%" in one else SPREAD[line.split()[1]]
        for a, b in zip(NUMBER.findall(one), NUMBER.findall(other), strict=True):
            assert a == b or ("." in a and abs(float(a) - float(b)) <= spread), f"{line}: {other}"


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


def test_columns_of_numbers_are_aligned_right_in_the_site():
    page = """
| objective | score | seconds | note | k |
| --- | --- | :-- | --- | --- |
| `ns` | -8.59 ± 0.01 | 3 | 1 of 2 | **1,204** |
| `hs` | 4.1e+10 | 3 | 1 of 2 | 3.2 GiB |
| a \\| b | – | 4 | 12 | 12 % |

text
"""
    assert "| --- | ---: | :-- | --- | ---: |" in hooks.with_numbers_right(page)
    assert hooks.with_numbers_right("| a |\n| --- |\n| - |\n") == "| a |\n| --- |\n| - |\n"


def test_formulas_are_mathml_in_the_site():
    pytest.importorskip("latex2mathml")  # of the extra `docs`
    inline = '<p>as <span class="arithmatex">\\(a &lt; \\log b\\)</span>.</p>'
    block = '<div class="arithmatex">\\[\n\\sum_k e^{z_k}\n\\]</div>'
    page = hooks.with_formulas(inline + block)
    assert page.startswith(
        '<p>as <math xmlns="http://www.w3.org/1998/Math/MathML" display="inline">'
    )
    assert "<mo>&#x0003C;</mo>" in page
    assert '<div class="formula"><math' in page
    assert "arithmatex" not in page
    assert "\\" not in page
    with pytest.raises(ValueError, match="argmim"):
        hooks.with_formulas('<span class="arithmatex">\\(\\argmim x\\)</span>')
