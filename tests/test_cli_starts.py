"""How a command starts, what it imports, and how it ends when interrupted."""

import contextlib
import fcntl
import signal
import subprocess
import sys
import termios
import time

import numpy as np
import pytest

import embedx
from embedx.cli.app import application
from tests.support.commands import words_of
from tests.support.forked import embedx_run, environment

COMMAND = [sys.executable, "-m", "embedx"]


@contextlib.contextmanager
def started(home, *arguments):
    """A command in a process that ends with the block, whose streams are pipes."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments)], cwd=home, text=True, env=environment(home), **pipes
    )
    try:
        yield process
    finally:
        process.kill()


def test_a_second_process_compiles_nothing_and_reads_nothing(home, two_topics):
    first = embedx_run(home, "train", two_topics, "--dim", 12, "--epochs", 1, "-o", "first")
    assert not any(word in first.stderr for word in ("token cache", "memory: ", "disk: "))
    probe = (
        "import sys; from embedx.cli.app import main; sys.argv = ['embedx', *sys.argv[1:]]\ntry:"
        " main()\nexcept SystemExit: pass\nfrom embedx.engine.skipgram import train_chunk; from"
        " embedx.objectives.ns import coefficients\nprint(sum(sum(k.stats.cache_misses.values())"
        " for k in (train_chunk, coefficients)))\nprint('gensim' in sys.modules)"
    )
    completed = subprocess.run(
        [
            sys.executable,
            "-c",
            probe,
            "train",
            str(two_topics),
            "--dim",
            "12",
            "--epochs",
            "1",
            "-v",
            "--output",
            "probed",
        ],
        cwd=home,
        capture_output=True,
        text=True,
        timeout=300,
        env=environment(home),
    )
    assert completed.stdout.splitlines()[-2:] == ["0", "False"], completed.stderr
    assert "token cache" in completed.stderr
    assert "compiling" not in completed.stderr


@pytest.mark.parametrize(
    ("code", "heavy"),
    [
        (
            (
                "sys.argv = ['embedx', '--help']\nfrom embedx.cli.app import main\ntry:"
                " main()\nexcept SystemExit: pass"
            ),
            "numba numpy scipy gensim smart_open",
        ),
        ("from embedx.vectors import model, formats, export", "gensim numba"),
        (
            "from embedx.text.sources import find_sources; find_sources(['wikipedia-sample', 'http://x/y'])",
            "numba gensim smart_open numpy",
        ),
    ],
    ids=["help", "queries and exports", "names of sources"],
)
def test_commands_that_do_not_train_import_no_heavy_package(code, heavy):
    assert imported_by(code, heavy) == []


def imported_by(code, modules):
    """The modules, of some, that a process has imported after running some Python."""
    probe = f"import sys\n{code}\nprint(*[m for m in {modules.split()} if m in sys.modules])"
    completed = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, timeout=300, check=True
    )
    return completed.stdout.splitlines()[-1].split()


def test_training_on_a_local_file_imports_no_client_of_networks(home, two_topics):
    words = ["embedx", "train", two_topics, "--output", home / "light", "--epochs", 1, "--quiet"]
    code = (
        f"sys.argv = {[str(word) for word in words]}\n"
        "from embedx.cli.app import main\ntry: main()\nexcept SystemExit as ended: print()"
    )
    heavy = "smart_open requests urllib3 http.client gensim sklearn pandas ray embedx.labeled.read"
    assert imported_by(code, heavy) == []
    assert len(embedx.load(home / "light")) == 16


@pytest.mark.parametrize("words", [["info", "model"], ["corpus", "list"]])
def test_only_the_command_that_is_called_is_built(words):
    (command,) = _listed(application(words))
    assert command == " ".join(words[: command.count(" ") + 1])


def test_a_shell_is_offered_all_commands_while_a_name_is_typed(monkeypatch):
    monkeypatch.setenv("_EMBEDX_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "embedx test")
    assert {"test", "test-label", "corpus list"} < set(_listed(application([])))


def _listed(app):
    """The names of the commands of an application."""
    names = [command.name for command in app.registered_commands]
    for group in app.registered_groups:
        names += [
            f"{group.name} {registered.name}"
            for registered in group.typer_instance.registered_commands
        ]
    return names


def unread_bytes(pipe):
    """How many bytes of a pipe its reader has not read yet."""
    count = fcntl.ioctl(pipe, termios.FIONREAD, bytes(4))
    return int.from_bytes(count, sys.byteorder)


def test_interrupted_before_training_leaves_nothing(home):
    with started(home, "train", "-", "--output", "never") as process:
        process.stdin.write("some words\n")
        process.stdin.flush()
        while unread_bytes(process.stdin):
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 143
    assert errors.splitlines()[-1] == "embedx: interrupted"
    assert not (home / "never").exists()


def test_an_interrupted_run_leaves_a_model_however_often_it_is_interrupted(home, two_topics):
    options = words_of("--epochs 1000000 --dim 8 --output interrupted --checkpoint-every 0.01s")
    with started(home, "train", two_topics, *options) as process:
        while process.poll() is None and not list(home.glob("interrupted.checkpoint/state-*")):
            time.sleep(0.01)
        for _ in range(3):
            process.send_signal(signal.SIGINT)
            time.sleep(0.002)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert out.startswith(str(home / "interrupted"))
    model = embedx.load(home / "interrupted")
    assert model.facts["interrupted"]
    assert np.isfinite(model.vectors).all()
