"""What the documentation shows exists: commands, options, files, numbers, and generated tables."""

import ast
import functools
import re
import shlex
from typing import Any

import pytest
from typer.main import get_command

from docs import hooks
from docs.docstrings import as_markdown
from embedx.cli.app import application
from tests.support.doc_pages import FENCE, NOTEBOOKS, PAGES, ROOT, TRAINING, blocks, cells

LANGUAGES = {"bash", "console", "python", "text", "toml"}


# Decimals of docs/labels.md that are no measurements: settings, and what a formula gives.
STATED = "0.1 .8 0.75 0.25 .55 1.5 .5 .4 .6 2.6 .007 .9 .013"
DECIMAL = re.compile(r"(?<![\w.])\d*\.\d+(?!\w)")
NOT_PROSE = re.compile(r"```.*?```|<!--.*?-->|`[^`]*`", re.DOTALL)
RESULTS = re.compile(r"\]\(\.\./(eval/results/[\w-]+\.md)")


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


def names_in(file):
    """The functions, classes, methods and constants that a module defines."""
    names = set()
    folder = ROOT if file.startswith(("tests/", "eval/")) else ROOT / "embedx"
    for node in ast.parse((folder / file).read_text("utf-8")).body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = [part.name for part in node.body if isinstance(part, ast.FunctionDef)]
            names |= {*methods, *(f"{node.name}.{method}" for method in methods)}
    return names


def test_functions_named_in_the_architecture_are_in_the_files_named_with_them():
    page = PAGES["architecture"].read_text("utf-8")
    named = re.findall(r"`([\w.]+)` of `([\w/]+\.py)`", page)
    named += re.findall(r"^ *([\w.]+) +([\w/]+\.py) +[`\w]", page, re.MULTILINE)
    assert len(named) > 40
    missing = [(name, file) for name, file in named if name not in names_in(file)]
    assert not missing


def test_numbers_stated_in_the_pages_are_those_of_the_package():
    from embedx.classification.label_weights import MAX_DENSE, MAX_DENSE_SAMPLED
    from embedx.evaluation.held_out import PAIRS
    from embedx.skipgram.strategies import TOKENS_PER_CHUNK
    from embedx.text.held_out import BORDER, PIECE
    from embedx.training.checkpoint import KEPT_STATES
    from embedx.training.guard import CHECKS_OF_RUN, DIVISORS

    def states(page, sentence):
        assert sentence in " ".join(PAGES[page].read_text("utf-8").split())

    states("objectives", "only if at most a twentieth of the feature values are non-zero")
    assert (MAX_DENSE, MAX_DENSE_SAMPLED) == (10_000_000, 250_000_000)
    states("labels", "from ten million weights on (`ova`), or 250 million (others)")
    states("words", f"chunks of {TOKENS_PER_CHUNK:,} tokens")
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


def test_a_table_ends_with_an_empty_line():
    follows = re.compile(r"^\|.*\|\n(?!\||<!--|\n)(.+)$", re.MULTILINE)  # would be a row of it
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    assert {page.name: follows.findall(page.read_text("utf-8")) for page in pages} == {
        page.name: [] for page in pages
    }


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


def blocks_of_measurements(text: str) -> list[tuple[str, list[str]]]:
    """The paragraphs, lists and tables of a page, and the pages of results that each links to; a
    list belongs to the paragraph above it.
    """
    blocks = re.split(r"\n\n+(?!- )", NOT_PROSE.sub("", text))
    return [(block, RESULTS.findall(block)) for block in blocks]


def test_measured_numbers_of_the_page_of_classification_stand_on_the_linked_pages_of_results():
    for block, pages in blocks_of_measurements(PAGES["labels"].read_text("utf-8")):
        measured = " ".join((ROOT / page).read_text("utf-8") for page in pages)
        known = {*STATED.split(), *DECIMAL.findall(measured)}
        assert set(DECIMAL.findall(block)) <= known, block
