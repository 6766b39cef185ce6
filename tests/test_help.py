"""The help: sections, near names, completion, tables; and settings given by --set."""

import json
import os
import pty
import re
import subprocess
import sys
import termios
from unittest import mock

import pytest
import typer
from typer.main import get_command

from embedx.classification.settings import ClassifySettings
from embedx.cli import tables
from embedx.cli.app import application
from embedx.cli.setting_options import SETTING_OPTIONS
from embedx.comparison.settings import CompareSettings
from embedx.distributed.settings import ClusterSettings
from embedx.errors import near
from embedx.objectives import OBJECTIVES
from embedx.samplers import SAMPLERS
from embedx.settings import is_given_by_set, settings_of
from embedx.skipgram.settings import CollapsedSettings, SkipGramSettings
from embedx.spelling import option_name
from embedx.text.settings import PhraseSettings, TextSettings, VocabularySettings
from tests.support.commands import invoke, run_command, words_of
from tests.support.refusals import refused, refused_on_command_line

COMMAND = [sys.executable, "-m", "embedx"]
MAX_OPTIONS = {"train": 60, "classify": 55, "compare": 26}


def help_of(*words):
    """The whole help of a command, and the options in it."""
    command = get_command(application(words)).commands[words[0]]
    for param in command.params:
        param.hidden = False
    text = command.get_help(typer.Context(command, info_name=f"embedx {words[0]}"))
    return text, re.findall(r"^  (?:-\w, )?(--[\w-]+)", text, re.MULTILINE)


@pytest.fixture
def run(tmp_path):
    """Run a command, with more variables of the environment; its code, and what it printed."""

    def run(*words, **variables):
        with mock.patch.dict(os.environ, variables):
            return run_command(tmp_path, *words, check=False)

    return run


@pytest.mark.parametrize("command", ["train", "classify", "compare", "phrases"])
def test_every_option_is_in_a_section(command):
    text, shown = help_of(command)
    titles = re.findall(r"^(\S.*):$", text, re.MULTILINE)
    assert titles[0] == "Arguments"
    assert len(titles) == len(set(titles))
    assert max(map(len, text.splitlines())) <= 80
    params = get_command(application([command])).commands[command].params
    flags = {param.opts[0] for param in params if param.opts[0].startswith("-")}
    assert flags <= set(shown)
    assert len(flags) + 1 <= MAX_OPTIONS.get(command, 60)  # and --help


@pytest.mark.parametrize(("command", "examples"), [("train", 3), ("classify", 3), ("compare", 0)])
def test_the_short_help_fits_a_screen_and_names_the_other_one(command, examples, run):
    short, whole = (run(command, option).stdout for option in ("--help", "--help-all"))
    assert len(short.splitlines()) <= 45
    assert short.count(f"  embedx {command} ") == examples
    assert short.count("[") == short.count("]")
    assert max(map(len, short.splitlines())) <= 80
    assert "--time-budget <duration>" in short
    assert "--help-all" in short
    assert set(re.findall(r"^  (--[\w-]+)", short, re.MULTILINE)) - {"--help-all"} <= set(
        re.findall(r"--[\w-]+", whole)
    )
    assert "--set NAME=VALUE" in whole


def test_the_commands_are_on_one_screen_in_groups(run):
    text = run("--help").stdout
    assert [line for line in text.splitlines() if line.endswith(":")] == [
        "Options:",
        "Train:",
        "Use a model:",
        "Evaluate:",
        "Data:",
        "Commands of word2vec.c and fastText:",
    ]
    assert len(text.splitlines()) <= 45


def test_the_help_shows_defaults_that_depend_on_the_objective():
    text = " ".join(help_of("train")[0].split())
    assert re.search(
        r"share their negatives; 0 draws negatives for each pair separately \[default: 8; 32 for"
        r" softmax, ar, ",
        text,
    )
    assert "number of negatives drawn for each positive [default: 5; 100 for ldgs, mips" in text


@pytest.mark.parametrize("command", ["train", "classify", "compare", "phrases", "report", "export"])
def test_the_help_of_an_option_states_one_default(command):
    for param in get_command(application([command])).commands[command].params:
        text = param.help or ""
        assert len(re.findall(r"by default|\[default:", text)) <= 1, param.name


# ---- settings by --set


def test_a_setting_is_an_option_in_all_classes_or_given_by_set_in_all():
    groups = [
        SkipGramSettings,
        CollapsedSettings,
        ClassifySettings,
        ClusterSettings,
        CompareSettings,
        TextSettings,
    ]
    groups += [VocabularySettings, PhraseSettings]
    of_tasks = {name for group in groups for name in settings_of(group)}
    for together in (
        (
            SkipGramSettings,
            CollapsedSettings,
            TextSettings,
            VocabularySettings,
            PhraseSettings,
            ClusterSettings,
        ),
        (ClassifySettings, ClusterSettings),
    ):
        names = [name for group in together for name in settings_of(group)]
        assert len(names) == len(set(names))
    for name, objective in OBJECTIVES.items():
        assert not of_tasks & set(settings_of(objective.Settings)), name
    groups += [part.Settings for part in (*OBJECTIVES.values(), *SAMPLERS.values())]
    for group in groups:
        for name in settings_of(group):
            has_option = group.__dataclass_fields__[name].metadata["has_option"]
            assert has_option != is_given_by_set(name), (group, name)


def test_settings_given_by_set_are_those_of_options(requested):
    words = ["--set", "local-decay=0.5", "--set=augment=noise", "--set", "threshold=1e9"]
    assert requested("train", "x", "--objective", "ar", *words) == (
        "ar",
        {"local_decay": 0.5, "augment": "noise", "threshold": 1e9},
    )
    _, typed = requested(
        *words_of("classify x --set tree_l2=0.5 --set replacement=yes --set decay-every=3")
    )
    assert typed == {"tree_l2": 0.5, "replacement": True, "decay_every": 3}
    assert requested("classify", "x", "--set", "arity=8", "--set", "arity=9")[1] == {"arity": 9}
    for loss in ("squared-hinge", "margin"):  # of different objectives
        assert requested("classify", "x", "--loss", loss)[1] == {"loss": loss}


@pytest.mark.parametrize(
    ("words", "place", "remedy"),
    [
        ("train x --set local-decay=2", "--set local-decay=2: ", "at most 1"),
        ("train x --set tail=perhaps", "--set tail=perhaps: ", "yes or no"),
        ("train x --set augment=nois", "--set augment=nois: ", "did you mean noise?"),
        ("train x --set local-dcay=1", "--set local-dcay=1: ", "did you mean local-decay?"),
        ("train x --set hierarchy=huffman", "--set hierarchy=huffman: ", "`embedx classify`"),
        ("train x --hidden 9", "No such option: --hidden; ", "`embedx classify`"),
        ("train x --set dim=9", "--set dim=9: ", "write --dim VALUE"),
        ("train x --set local-decay", "--set local-decay=: ", "a number"),
        (
            "train x --local_decay=0.5",
            "No such option: --local-decay; ",
            "did you mean --set local-decay=VALUE?",
        ),
        (
            "compare x --objectives ns --subwords 3-6",
            "No such option: --subwords; ",
            "did you mean --set subwords=VALUE?",
        ),
        (
            "train x --objective ns --set local-decay=0.5",
            "--set local-decay does not apply to --objective ns; ",
            "use it with ar, ",
        ),
        ("train x --output=", "--output '': ", "leave --output out"),
        (
            "train x --block-sise 3",
            "No such option: --block-sise; ",
            "did you mean --block-size? see --help",
        ),
        ("train x --objective implict", "--objective implict: ", "did you mean implicit?"),
        ("train x --optimizer adagrd", "--optimizer adagrd: ", "did you mean adagrad?"),
        ("train x --sampler xyzzy", "--sampler xyzzy: ", "choose one of "),
        ("train x -p 2", "No such option: -p; ", "did you mean --p?"),
        ("export x --output y", "No such option: --output; ", "did you mean the argument OUT?"),
        ("classify film.csv", "film.csv: ", "did you mean films.csv?"),
    ],
)
def test_wrong_and_moved_options_get_one_line(words, place, remedy, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("x", "films.csv"):
        (tmp_path / name).write_text("a b c\n")
    with refused_on_command_line(f"^{re.escape(place)}.*{re.escape(remedy)}"):
        invoke(*words.split())


def listed_objective(capsys, name, *options):
    """What `embedx objectives NAME` prints."""
    invoke("objectives", name, *options)
    return capsys.readouterr().out


def options_listed(text):
    """The options that start a row, with --set."""
    return re.findall(r"^  (--(?:set )?[\w-]+)", text, re.MULTILINE)


@pytest.mark.parametrize("name", list(OBJECTIVES))
def test_an_objective_is_listed_with_its_own_settings_alone(name, capsys):
    help_text = listed_objective(capsys, name)
    settings, _, others = help_text.partition("Other defaults")
    objective = OBJECTIVES[name]
    assert help_text.startswith(f"{name}  ")
    assert max(map(len, help_text.splitlines())) <= 80
    assert sorted(options_listed(settings)) == sorted(
        option_name(setting) for setting in settings_of(objective.Settings)
    )
    defaults = {**objective.word_defaults, **objective.label_defaults}
    assert {*options_listed(others)} == {
        option_name(setting) for setting in {*defaults} - {*settings_of(objective.Settings)}
    }


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("hs", "(clusters|huffman) [only embedx classify; default: clusters]"),
        ("hs", "--learning-rate train: 1; classify: 1 on dense features, 0.3 on sparse ones"),
        ("ldgs", "(margin|softmax) [default: softmax; margin for classify]"),
        ("ldgs", "(number above 0, at most 1) [default: 0.01; 0.1 for classify]"),
        ("ldgs", "(whole number at least 1) [default: 8]"),
        ("ar", "--set local-decay=VALUE the local step size"),
        ("ar", "--block-size train: 32"),
    ],
)
def test_a_row_of_a_setting_has_its_defaults(name, row, capsys):
    assert row in " ".join(listed_objective(capsys, name).split())


def test_the_settings_of_an_objective_as_json(capsys):
    (record,) = json.loads(listed_objective(capsys, "hs", "--json"))
    (hierarchy,) = record["settings"]
    assert hierarchy["option"] == "--set hierarchy=VALUE"
    assert hierarchy["defaults"] == {"classify": "clusters"}
    assert record["defaults"]["--learning-rate"]["classify"]["sparse"] == 0.3


def test_an_objective_that_does_not_exist_is_refused():
    with refused("objective", value="implict"):
        invoke("objectives", "implict")


@pytest.mark.parametrize("command", ["train", "classify"])
def test_help_all_lists_the_settings_for_set(command, run):
    text = run(command, "--help-all").stdout
    assert max(map(len, text.splitlines())) <= 80
    _, _, tail = text.partition("Less common settings")
    common, _, by_objective = tail.partition("Settings of objectives")
    options = SETTING_OPTIONS[command]().values()
    for option in options:
        if option.is_given_by_set and not option.is_of_some_objectives:
            assert f"  {option.typed_name} " in common
    names = {
        objective: {option.typed_name for option in options if objective in option.objectives}
        for objective in OBJECTIVES
    }
    rows = " ".join(by_objective.split())
    assert names["ar"] == {"negatives", "augment", "local-decay", "threshold"}
    assert " ar augment, local-decay, threshold ar-probit augment, " in rows


# ---- on a terminal


def on_a_terminal(*words, columns=80):
    """What a command prints on a terminal."""
    screen, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (24, columns))
    environment = {**os.environ, "COLUMNS": str(columns), "TERM": "dumb", "NO_COLOR": "1"}
    process = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=terminal, stderr=terminal, env=environment
    )
    os.close(terminal)
    output = b""
    while True:
        try:
            block = os.read(screen, 65536)
        except OSError:  # on Linux, when the other end is closed
            break
        if not block:
            break
        output += block
    os.close(screen)
    assert process.wait(timeout=120) == 0
    return re.sub(r"\x1b\[[\d;]*m", "", output.decode()).replace("\r\n", "\n")


def test_rows_are_a_table_on_a_terminal_and_tab_separated_elsewhere(capsys):
    probe = (
        "from embedx.cli import tables; tables.show(('word', 'cosine'), [('[b]old', '0.5000'),"
        " ('newer', '-1.2500')])"
    )
    lines = [
        line.strip()
        for line in on_a_terminal(sys.executable, "-c", probe).splitlines()
        if line.strip()
    ]
    assert lines[0].split() == ["word", "cosine"]
    assert lines[-2:] == ["[b]old  0.5000", "newer   -1.2500"]
    tables.show(("word", "cosine"), [("old", "0.5000")])
    assert capsys.readouterr().out == "old\t0.5000\n"


def test_no_bar_runs_into_rows_that_are_read_at_once(tmp_path):
    """Both `head` and the bar write to the terminal."""
    (tmp_path / "few.txt").write_text("a 0:1\nb 1:1\n" * 50)
    places = str(tmp_path / "few"), str(tmp_path / "few.txt")
    run_command(tmp_path, "classify", places[1], "--epochs", 1, "-q", "-o", places[0])
    shell = [
        "sh",
        "-c",
        'f=$1; shift; "$@" | head -n 2; "$@" >"$f"',
        "sh",
        str(tmp_path / "rows"),
        *COMMAND,
    ]
    text = on_a_terminal(*shell, "predict", *places)
    rows = (tmp_path / "rows").read_text().splitlines()
    # a slow stage has a line of its own
    lines = [
        line for line in text.splitlines() if not line.startswith(("reading: ", "predicting: "))
    ]
    assert lines[:2] == rows[:2]
    assert re.search(r"reading: +\d+%\|", text.partition(rows[1])[2])  # into a file goes a bar


# ---- near names, completion


def test_an_unknown_command_suggests_the_near_one(run):
    completed = run("trian", "x")
    assert completed.returncode == 2
    assert completed.stderr == "embedx: No such command 'trian'. Did you mean 'train'? see --help\n"


def test_an_unknown_command_without_a_near_one_refers_to_the_help(run):
    completed = run("zzzz", "x")
    assert completed.stderr == "embedx: No such command 'zzzz'; see --help\n"


def test_a_suggestion_comes_before_the_remedy():
    for typed in ("softmx", "Softmax", "--soft-max"):
        assert (
            near(typed, iter(["--buckets", "softmax", "ns"]), "see --help")
            == "did you mean softmax? see --help"
        )
    for typed in ("xyzzy", "--quiet", "bag"):
        assert near(typed, ["--buckets", "softmax", "ns"], "see --help") == "see --help"


@pytest.mark.parametrize("words", [["-h"], ["corpus", "check", "-h"]], ids=" ".join)
def test_the_option_h_shows_the_help(words, run):
    completed = run(*words)
    assert completed.returncode == 0
    assert completed.stdout == run(*words[:-1], "--help").stdout


@pytest.mark.parametrize(
    ("typed", "offered"), [("embedx cl", {"classify"}), ("embedx train x --opt", {"--optimizer"})]
)
def test_a_shell_completes(typed, offered, run):
    completed = run(
        _EMBEDX_COMPLETE="complete_bash", COMP_WORDS=typed, COMP_CWORD=str(len(typed.split()) - 1)
    )
    assert set(completed.stdout.split()) == offered, completed.stderr


def test_the_script_for_a_shell_is_shown(run):
    completed = run("--show-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert "_EMBEDX_COMPLETE=complete_bash" in completed.stdout
