"""The README says what is so: its files exist, its commands are options that exist, its Python runs."""

import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

import embedx
from embedx.cli import application
from embedx.objectives import markdown_table

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")


def commands():
    """Every `embedx …` line of the README's shell blocks."""
    blocks = re.findall(r"```(?:bash|console)\n(.*?)```", README, re.DOTALL)
    lines = [part.strip() for block in blocks for line in block.splitlines() for part in re.split(r"&&|\|", line)]
    return [
        shlex.split(line.removeprefix("$ "), comments=True) for line in lines if re.match(r"(\$ )?embedx \w+ .*[^:]$", line)
    ]


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_every_command_of_the_readme_is_understood(words):
    command = get_command(application(words[1:])).commands[words[1]]
    while getattr(command, "commands", None):
        words = words[1:]
        command = command.commands[words[1]]
    known = {name for parameter in command.params for name in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= known


def test_the_commands_were_found():
    assert len(commands()) >= 8


def test_every_file_of_the_tree_exists_and_every_module_is_in_it():
    tree = README.split("## Where things are")[1]
    for line in tree.splitlines():
        if match := re.match(r"( *)([\w./]+\.py|\w+/)\s", line):
            name = match[2].rstrip("/")
            assert list(ROOT.rglob(name)), f"{name} is in the README's tree but not in the repository"
    for module in (*ROOT.glob("embedx/*.py"), *ROOT.glob("embedx/engine/*.py"), *ROOT.glob("embedx/objectives/*.py")):
        assert module.name.startswith("__") or module.name in tree, f"{module.name} is missing in the README's tree"


def test_the_python_of_the_readme_runs(two_topics, tmp_path, monkeypatch):
    words, classes = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    text = two_topics.read_text().replace("cat", "city")
    (tmp_path / "corpus.txt").write_text(text)
    embedx.SkipGram(dim=4, epochs=1).fit("corpus.txt").save("corpus.ns.embedx")
    names = {}
    exec(words, names)
    assert names["model"]["city"].shape == (4,)
    exec(classes, names)
    assert names["accuracy"] > 0.8
    assert (names["labels"][:, 0] == names["y"]).mean() > 0.95


def test_the_table_of_objectives_is_the_registry():
    assert markdown_table() in README, "paste what `embedx.objectives.markdown_table()` gives"


def test_defaults_named_in_the_readme_are_the_defaults():
    settings = embedx.SkipGram().settings
    assert f"`--share` {settings.share} " in README
    assert f"| `--learning-rate` | {settings.learning_rate} |" in README
