"""What the commands tell of themselves: help in parts, near names, completion, tables."""

import os
import pty
import re
import subprocess
import sys
import termios

import pytest
import typer
from typer.main import get_command

from embedx.cli import declared, tables
from embedx.cli import help as helping
from embedx.cli.app import application
from embedx.errors import near
from embedx.objectives import OBJECTIVES
from embedx.settings import TextSettings, option_name, settings_of
from tests import forked

COMMAND = [sys.executable, "-m", "embedx"]


def help_of(*words):
    """The help of a command, and the options in it."""
    command = get_command(application(words)).commands[words[0]]
    text = command.get_help(typer.Context(command, info_name=f"embedx {words[0]}"))
    return text, re.findall(r"^  (?:-\w, )?(--[\w-]+)", text, re.MULTILINE)


def own(*names):
    return {option_name(setting) for name in names for setting in settings_of(OBJECTIVES[name].Settings)}


@pytest.mark.parametrize("command", ["train", "classify"])
def test_options_of_an_objective_are_told_to_who_chose_it(command):
    for name, objective in OBJECTIVES.items():
        elsewhere = objective.label_settings if command == "train" else objective.word_settings
        expected = own(name) - set(map(option_name, elsewhere))
        _, shown = help_of(command, "x", "--objective", name)
        assert set(shown) & own(*OBJECTIVES) == expected, name
        assert help_of(command, f"--objective={name}")[1] == shown
    _, shown = help_of(command, "--help-all")
    elsewhere = {s for o in OBJECTIVES.values() for s in (o.label_settings if command == "train" else o.word_settings)}
    assert set(shown) & own(*OBJECTIVES) == own(*OBJECTIVES) - set(map(option_name, elsewhere))
    _, shown = help_of(command)
    assert set(shown) & own(*OBJECTIVES) == (own("ns") if command == "train" else set())


def test_the_help_of_an_objective_tells_its_own_defaults():
    text = " ".join(help_of("train", "--objective", "ar")[0].split())
    assert "share their noise words; 0 draws noise for each pair separately [default: 32]" in text
    assert "as in word2vec" in text
    for command in ("train", "classify"):
        text = " ".join(help_of(command, "--objective", "ldgs")[0].split())
        loss = "margin" if command == "classify" else "softmax"
        assert f"loss among the rows that the search finds (margin|softmax) [default: {loss}]" in text


@pytest.mark.parametrize("command", ["train", "classify", "compare", "phrases"])
def test_the_parts_stand_in_their_order_and_every_option_is_in_one(command):
    text, shown = help_of(command, "--help-all")
    titles = re.findall(r"^(\S.*):$", text, re.MULTILINE)
    assert titles[0] == "Arguments"
    assert titles[-1] == "Help"
    places = [helping.PANELS.index(title) for title in titles[1:-1] if title != "Options"]
    assert places == sorted(places)
    assert len(places) >= 2
    assert max(map(len, text.splitlines())) <= 80
    params = get_command(application([command])).commands[command].params
    assert {each.opts[0] for each in params if not each.hidden and each.opts[0].startswith("-")} <= set(shown)
    if command != "phrases":
        assert "Options" not in titles


def test_help_all_ends_with_the_names_of_others():
    text = " ".join(help_of("train", "--help-all")[0].split())
    assert "--size, --vector-size for --dim; --ws for --window" in text
    assert "--vector-size" not in help_of("train")[0]


def on_a_terminal(*words, columns=80):
    """What a command prints on a terminal."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    environment = {**os.environ, "COLUMNS": str(columns), "TERM": "dumb", "NO_COLOR": "1"}
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    found = b""
    while True:
        try:
            some = os.read(ours, 65536)
        except OSError:  # as Linux tells that the other end is closed
            break
        if not some:
            break
        found += some
    os.close(ours)
    assert process.wait(timeout=120) == 0
    return re.sub(r"\x1b\[[\d;]*m", "", found.decode()).replace("\r\n", "\n")


def test_help_on_a_terminal_is_in_boxes_that_fit():
    text = on_a_terminal(*COMMAND, "train", "--objective", "ove", "--help")
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    titles = [found[1] for line in lines if (found := re.match(r"[╭+]─? ?([A-Z][\w -]+?) ─", line))]
    assert titles[:4] == ["Arguments", "Objective", "Model", "Training"]
    assert "[default: 5]" in text
    assert "--negatives" in text
    assert "--score-l2" not in text  # of ns


def test_rows_are_a_table_on_a_terminal_and_tab_separated_elsewhere(capsys):
    probe = "from embedx.cli import tables; tables.show(('word', 'cosine'), [('[b]old', '0.5000'), ('newer', '-1.2500')])"
    lines = [line.strip() for line in on_a_terminal(sys.executable, "-c", probe).splitlines() if line.strip()]
    assert lines[0].split() == ["word", "cosine"]
    assert lines[-2:] == ["[b]old    0.5000", "newer    -1.2500"]
    tables.show(("word", "cosine"), [("old", "0.5000")])
    assert capsys.readouterr().out == "old\t0.5000\n"


def test_no_bar_runs_into_rows_that_are_read_at_once(tmp_path):
    """Both `head` and the bar write to the terminal."""
    (tmp_path / "few.txt").write_text("a 0:1\nb 1:1\n" * 50)
    places = str(tmp_path / "few"), str(tmp_path / "few.txt")
    forked.run("classify", places[1], "--epochs", 1, "-q", "-o", places[0], cwd=tmp_path, env=forked.environment(tmp_path))
    shell = ["sh", "-c", 'f=$1; shift; "$@" | head -n 2; "$@" >"$f"', "sh", str(tmp_path / "rows"), *COMMAND]
    text = on_a_terminal(*shell, "predict", *places)
    rows = (tmp_path / "rows").read_text().splitlines()
    assert text.splitlines()[:2] == rows[:2]
    assert "%|" in text.partition(rows[1])[2]  # into a file goes a bar


@pytest.fixture
def run(tmp_path):
    """Run a command, with more variables of the environment; its completed process."""

    def run(*words, **variables):
        return forked.run(*words, cwd=tmp_path, env=forked.environment(tmp_path) | variables, check=False)

    return run


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "x", "--epocs", "3"], "embedx: No such option: --epocs; did you mean --epochs? --help tells more\n"),
        (["train", "x", "--block-sise", "3"], "embedx: No such option: --block-sise; did you mean --block-size? --help tells"),
        (["nn", "x", "w", "--topp", "3"], "embedx: No such option: --topp; did you mean --top-k? --help tells more\n"),
        (["trian", "x"], "embedx: No such command 'trian'. Did you mean 'train'? --help tells more\n"),
        (["train", "x", "--zzz", "3"], "embedx: No such option: --zzz; --help tells more\n"),
    ],
)
def test_an_unknown_option_or_command_suggests_the_near_one(words, message, run):
    done = run(*words)
    assert done.returncode == 2
    assert done.stderr.startswith(message)
    assert done.stderr.count("\n") == 1


def test_former_names_are_not_suggested(run):
    done = run("train", "x", "--shar", "3")
    assert (done.returncode, done.stderr) == (2, "embedx: No such option: --shar; did you mean --start? --help tells more\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--objective", "implict"],
            "--objective implict: no such objective; did you mean implicit[?] choose one of softmax, ns, ",
        ),
        (["--optimizer", "adagrd"], "--optimizer adagrd: .*did you mean adagrad[?] choose one of "),
        (["--sampler", "unifrom"], "--sampler unifrom: did you mean uniform[?] choose one of .*path$"),
        (["--bias", "zeroo"], "--bias zeroo: did you mean zero[?] choose one of frequency, zero, none$"),
        (["--sampler", "xyzzy"], "--sampler xyzzy: choose one of .*path$"),
    ],
)
def test_an_unknown_name_suggests_the_near_one(two_topics, words, message):
    from embedx.errors import EmbedxError

    with pytest.raises(EmbedxError, match=message):
        application(["train"])(["train", str(two_topics), "--output", "never", *words], standalone_mode=False)


@pytest.mark.parametrize("typed", ["xyzzy", "--quiet", "bag"])
def test_nothing_is_suggested_where_nothing_is_near(typed):
    assert near(typed, ["--buckets", "softmax", "ns"], "see --help") == "see --help"


@pytest.mark.parametrize("typed", ["softmx", "Softmax", "--soft-max"])
def test_what_is_near_comes_before_the_remedy(typed):
    assert near(typed, iter(["--buckets", "softmax", "ns"]), "see --help") == "did you mean softmax? see --help"


@pytest.mark.parametrize("words", [["-h"], ["classify", "-h"], ["corpus", "check", "-h"], ["word2vec", "-h"]], ids=" ".join)
def test_h_shows_the_help(words, run):
    done = run(*words)
    assert done.returncode == 0
    assert done.stdout == run(*words[:-1], "--help").stdout


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("embedx cl", {"classify"}),
        ("embedx train x --objective i", {"implicit"}),
        ("embedx objectives ar", {"ar", "ar-probit", "ar-logistic"}),
        ("embedx train x --opt", {"--optimizer"}),
        ("embedx train x --tokenizer w", {"whitespace", "words"}),
    ],
)
def test_a_shell_completes(typed, offered, run):
    done = run(_EMBEDX_COMPLETE="complete_bash", COMP_WORDS=typed, COMP_CWORD=str(len(typed.split()) - 1))
    assert set(done.stdout.split()) == offered, done.stderr


def test_the_script_for_a_shell_is_shown(run):
    done = run("--show-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert "_EMBEDX_COMPLETE=complete_bash" in done.stdout


def test_one_objective_is_told_with_its_own_options(capsys):
    application(["objectives"])(["objectives", "hs"], standalone_mode=False)
    told = capsys.readouterr().out
    assert told.startswith("hs  ")
    assert "--hierarchy: `embedx classify`: binary tree of labels" in told
    assert "negatives" not in told
    application(["objectives"])(["objectives", "ove", "--json"], standalone_mode=False)
    assert '"--negatives": "noise classes for each positive' in capsys.readouterr().out


def test_an_option_is_one_setting():
    with pytest.raises(ValueError, match="tokenizer: a setting of TextSettings and of another group"):
        declared.options_of(TextSettings, TextSettings)
