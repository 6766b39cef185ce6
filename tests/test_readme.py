"""The README, and what moved from it to docs/, say what is so: files exist, commands have such
options, Python runs.
"""

import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from docs import hooks
from docs.examples.log_uniform import LogUniform
from embedx.labeled import formats as labelled
from embedx.objectives import OBJECTIVES
from embedx.optimizers import OPTIMIZERS
from embedx.optimizers.contract import WORDS
from embedx.skipgram.configuration import configure
from embedx.skipgram.defaults import TEXT, default_rate
from embedx.text.sources import READER_OF_SUFFIX
from embedx.vectors import formats
from eval.page import filled
from tests.support import forked
from tests.support.layers import height_of

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
ARCHITECTURE, COMING_FROM, EXTENDING, WORDS_PAGE = (
    (ROOT / "docs" / f"{name}.md").read_text("utf-8")
    for name in ("architecture", "coming-from", "extending", "words")
)


def tree():
    """What is said of each file and folder where things are, by its path."""
    lines = ARCHITECTURE.split("```text")[1].split("```")[0].strip().splitlines()
    entries, above = {}, []
    for line in lines:
        indent, name, text = re.fullmatch(r"((?:  )*)([\w.]+/?) *(.*)", line).groups()
        above = [*above[: len(indent) // 2], name]
        entries["".join(above)] = text
    return entries


def test_every_folder_and_file_of_the_tree_exists_and_every_folder_is_in_it():
    folders = {f"embedx/{path.parent.name}/" for path in ROOT.glob("embedx/*/__init__.py")}
    assert len(folders) > 15
    assert folders <= tree().keys()
    for path in tree():
        is_there = (ROOT / path).is_dir() if path.endswith("/") else (ROOT / path).is_file()
        assert is_there, f"{path} is not in the repository"


def test_folders_of_the_tree_import_from_those_below():
    parts = [Path(path) for path in tree()]
    heights = [height_of(path.stem) for path in parts if path.parent == Path("embedx")]
    assert heights == sorted(heights, reverse=True)


def python_blocks(text):
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def test_the_python_of_the_readme_runs_and_the_pipeline_of_the_page_about_words(
    two_topics, tmp_path, monkeypatch
):
    words, classes = python_blocks(README)
    (documents,) = (block for block in python_blocks(WORDS_PAGE) if "make_pipeline" in block)
    monkeypatch.chdir(tmp_path)
    text = two_topics.read_text()
    for shown, command in (
        ("cat", "city"),
        ("dog", "king"),
        ("fur", "woman"),
        ("paw", "man"),
        ("tail", "music"),
    ):
        text = text.replace(shown, command)
    (tmp_path / "corpus.txt").write_text(text)
    names = {}
    exec(words, names)
    assert names["model"]["city"].shape == (100,)
    exec(documents, names)
    assert names["pipeline"].score(names["documents"], names["topics"]) > 0.9
    exec(classes, names)
    assert names["accuracy"] > 0.8
    assert (names["labels"][:, 0] == names["y"]).mean() > 0.95


def test_links_of_the_readme_lead_to_files_and_headings_that_exist():
    links = re.findall(r"\]\(([\w./-]+)(?:#([\w-]+))?\)", README)
    assert len(links) > 30
    for name, anchor in links:
        assert (ROOT / name).exists(), name
        if anchor:
            titles = re.findall(r"^#+ (.+)$", (ROOT / name).read_text("utf-8"), re.MULTILINE)
            assert anchor in {
                re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles
            }, f"{name}#{anchor}"


@pytest.mark.parametrize(
    ("page", "tables"),
    [
        (hooks.OBJECTIVES_PAGE, hooks.parts),
        (hooks.LABELS_PAGE, hooks.labels_parts),
        (hooks.GRAPHS_PAGE, hooks.graphs_parts),
    ],
    ids=["objectives", "labels", "graphs"],
)
def test_tables_of_pages_are_made_from_the_code(page, tables):
    text = page.read_text("utf-8")
    assert filled(text, tables(), page) == text, "run `python -m docs.hooks`"


def test_the_table_of_formats_is_the_registry():
    for name, file_format in formats.FORMATS.items():
        suffixes = " ".join(f"`{suffix}`" for suffix in file_format.suffixes) or "-"
        needs = f"`embedx[{file_format.extra}]`" if file_format.extra else "-"
        row = (
            f"`{name}`",
            suffixes,
            file_format.meaning,
            file_format.programs,
            ", ".join(file_format.dtypes),
            needs,
        )
        assert f"| {' | '.join(row)} |" in WORDS_PAGE


def test_the_readme_names_every_labelled_format():
    row = next(line for line in README.splitlines() if line.startswith("| [labelled rows]"))
    for name in labelled.FORMATS:
        assert all(word in row for word in name.split(", ")), name


def test_the_page_about_words_names_every_suffix_of_a_table():
    for suffix in READER_OF_SUFFIX:
        assert f"`{suffix}`" in WORDS_PAGE, suffix


COMMANDS = """
import sys
from embedx.cli.app import application
for line in sys.argv[1:]:
    application(line.split())(line.split(), standalone_mode=False)
"""


def test_the_worked_examples_are_each_one_file_and_one_line(tmp_path):
    """What they learn is tested where the page runs."""
    shutil.copytree(
        ROOT / "embedx", tmp_path / "embedx", ignore=shutil.ignore_patterns("__pycache__")
    )
    added = re.findall(r"```text\n( +\"(\w+)\.\w+\",\n)```", EXTENDING)
    folders = ("labeled/formats", "objectives", "samplers")
    for (line, module), folder in zip(added, folders, strict=True):
        assert f"<!-- example: {module}.py -->" in EXTENDING
        shutil.copy(ROOT / "docs" / "examples" / f"{module}.py", tmp_path / "embedx" / folder)
        registry = tmp_path / "embedx" / folder / "__init__.py"
        # the end of the list
        registry.write_text(registry.read_text().replace("\n)\n", f"\n{line})\n", 1))
    (tmp_path / "corpus.txt").write_text("cat dog fur paw\ncar road fuel wheel\n" * 10)
    options = (
        "--objective hinge --sampler log-uniform --min-count 1 --sample 0 --dim 4 --epochs 1"
        " --threads 1"
    )
    lines = [
        "objectives",
        f"train corpus.txt {options} --cache-dir tokens --output model",
        "classify --help-all",
    ]
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-c", COMMANDS, *lines]
    completed = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True
    )
    assert completed.returncode == 0, completed.stderr
    assert "\nhinge " in completed.stdout
    assert "model\t8 words, loss " in completed.stdout
    assert "draws by the rank of the count" in " ".join(completed.stdout.split())


CONTRACTS = """
import sys
import pytest
from docs.examples.hinge import Hinge
from docs.examples.log_uniform import LogUniform
from embedx.objectives import OBJECTIVES
from embedx.samplers import SAMPLERS
OBJECTIVES["hinge"], SAMPLERS["log-uniform"] = Hinge, LogUniform
sys.exit(pytest.main(sys.argv[1:]))
"""


def test_the_worked_examples_pass_the_tests_of_the_contracts(tmp_path):
    files = ["tests/test_objectives.py", "tests/test_samplers.py"]
    options = ["-k", "(hinge and not squared) or log-uniform", "-n", "0", "-p", "no:cacheprovider"]
    completed = forked.run(
        *files, *options, cwd=ROOT, env=forked.environment(tmp_path), code=CONTRACTS, check=False
    )
    assert completed.returncode == 0, completed.stdout
    assert int(re.search(r"(\d+) passed", completed.stdout)[1]) >= 12


def test_log_uniform_noise_is_that_of_the_formula():
    sampler = LogUniform(LogUniform.Settings(), replacement=True)
    sampler.prepare(np.array([5, 90, 5, 700]))
    by_rank = [(math.log(r + 2) - math.log(r + 1)) / math.log(5) for r in range(4)]
    expected = [by_rank[r] for r in (2, 1, 3, 0)]
    assert sampler.noise.tolist() == pytest.approx(expected)
    assert np.exp(sampler.log_noise(2)).tolist() == pytest.approx(expected, rel=1e-5)


def test_defaults_named_beside_those_of_word2vec_are_the_defaults():
    defaults = {name: configure(name, {}).settings for name in OBJECTIVES}
    first, *others = sorted({default.block_size for default in defaults.values()})
    assert f"`--block-size` {first} (or {', '.join(map(str, others))}) " in COMING_FROM
    *rates, last = sorted(
        {
            default.learning_rate or default_rate(default.optimizer, TEXT)
            for default in defaults.values()
            if default.optimizer == "rowwise-adagrad"
        }
    )
    row = next(
        line for line in COMING_FROM.splitlines() if line.startswith("| `--learning-rate` |")
    )
    assert row.startswith(
        f"| `--learning-rate` | {', '.join(map(str, rates))} or {last}, by objective:"
    )
    assert f"{OPTIMIZERS['sgd'].rates[WORDS]} for `sgd`" in row
    assert all(default.optimizer != "sgd" for default in defaults.values())
