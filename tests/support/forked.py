"""Commands in processes of their own, each forked from one that has imported what they need: a
second less for each.

What a process imports, and how it starts, is for tests that start one from nothing.
"""

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

import numba

ROOT = Path(__file__).parents[2]
COMMAND = "from embedx.cli.app import main\nmain()"
REQUEST = "from embedx.tasks.__main__ import main\nmain()"
EVAL = "import runpy\nrunpy.run_module('eval', run_name='__main__')"  # `python -m eval`
MISTAKE = ["train", "text", "--dim", "-1"]
PATIENCE = 300  # seconds
IMPORTS = {
    "embedx": [
        "smart_open",
        "embedx.classification.run",
        "embedx.cli.app",
        "embedx.cli.labels",
        "embedx.cli.training_runs",
        "embedx.skipgram.collapsed",
        "embedx.skipgram.run",
        "embedx.tasks.__main__",
        "embedx.text.sources",
        "embedx.vectors.formats",
    ],
    "numba": [],  # for what embedx does where it is imported
}
CAN_FORK = sys.platform == "linux"  # elsewhere a child may not use all of the system's libraries


def run(*arguments, cwd, env, code=COMMAND, check=True, input="", imported="embedx"):
    """Run `embedx` with these arguments, or other Python `code` with them in sys.argv; its
    completed process.

    `env` is an `environment`, or more than that. Standard output and error are files. What forks
    has imported the modules that IMPORTS has under the name `imported`.
    """
    words = [str(argument) for argument in arguments]
    if not CAN_FORK:
        options = {
            "input": input,
            "capture_output": True,
            "text": True,
            "timeout": PATIENCE,
            "check": False,
        }
        completed = subprocess.run(
            [sys.executable, "-c", code, *words], cwd=cwd, env=env, **options
        )
    else:
        with tempfile.TemporaryDirectory() as folder:
            streams = [str(Path(folder, name)) for name in ("in", "out", "err")]
            Path(streams[0]).write_text(input)
            server = _server(imported, env.get("NUMBA_CACHE_DIR"))
            _request(server, code, words, cwd, env, streams)
            returned = int(server.stdout.readline())
            out, err = (Path(name).read_text("utf-8") for name in streams[1:])
        completed = subprocess.CompletedProcess(words, returned, out, err)
    assert not check or completed.returncode == 0, completed.stderr
    return completed


def environment(home):
    """Environment of commands that keep all files but kernels in `home`; all tests share the
    kernels.
    """
    from embedx.kernels.compiled import KERNEL_FOLDER

    return os.environ | {
        "EMBEDX_CACHE_DIR": str(Path(home, "cache")),
        "NUMBA_CACHE_DIR": str(Path(KERNEL_FOLDER).parent),
    }


def embedx_run(home, *arguments, **options):
    """Run a command in `home`; its completed process."""
    return run(*arguments, cwd=home, env=environment(home), **options)


@contextlib.contextmanager
def piped(home, *arguments):
    """A command in `home` whose standard input and output are pipes, which the block gets.

    It ends well when its input is closed, after the block.
    """
    words = [str(argument) for argument in arguments]
    if not CAN_FORK:
        command = [sys.executable, "-c", COMMAND, *words]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with subprocess.Popen(command, cwd=home, env=environment(home), **pipes) as process:
            yield process.stdin, process.stdout
        assert process.returncode == 0
        return
    with tempfile.TemporaryDirectory() as folder:
        streams = [str(Path(folder, name)) for name in ("in", "out", "err")]
        for name in streams[:2]:
            os.mkfifo(name)
        env = environment(home)
        server = _server("embedx", env["NUMBA_CACHE_DIR"])
        _request(server, COMMAND, words, home, env, streams)
        try:
            with open(streams[0], "w") as stdin, open(streams[1]) as stdout:
                yield stdin, stdout
                stdin.close()
                stdout.read()
        finally:
            returned = int(server.stdout.readline())
        assert returned == 0, Path(streams[2]).read_text("utf-8")


def _request(server, code, words, cwd, env, streams):
    """Have a server fork a command; the server prints its exit code when it ends."""
    request = {
        "code": code,
        "words": words,
        "cwd": str(cwd),
        "environment": dict(env),
        "streams": streams,
    }
    print(json.dumps(request), file=server.stdin, flush=True)


def watched(command, folder):
    """`embedx.comparison.runs.watched` by a fork: what a run of a comparison printed, without its
    memory.
    """
    from embedx.comparison.runs import Ended

    code = {"embedx": COMMAND, "embedx.tasks": REQUEST}[command[2]]
    kernels = environment(folder)["NUMBA_CACHE_DIR"]
    completed = run(
        *command[3:],
        cwd=Path.cwd(),
        env=os.environ | {"NUMBA_CACHE_DIR": kernels},
        check=False,
        code=code,
    )
    return Ended(completed.returncode, completed.stdout, completed.stderr, None)


@functools.cache
def _server(imported, kernels):
    """The process that forks, one for each place where kernels are kept, or None where numba is
    told of none.
    """
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    if kernels:
        environment["NUMBA_CACHE_DIR"] = kernels
    environment["OPENBLAS_NUM_THREADS"] = "1"  # what forks has no other threads
    command = [sys.executable, "-m", "tests.support.forked", imported]
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    server = subprocess.Popen(command, cwd=ROOT, env=environment, start_new_session=True, **streams)
    atexit.register(_end, server)
    return server


def _end(server):
    server.communicate()


def serve():
    """Fork for each request; in the child, which returns, the request. None at the end."""
    for name in IMPORTS[sys.argv[1]]:
        importlib.import_module(name)
        if name == "embedx.cli.app":  # a first command has typer import what it parses options with
            with contextlib.suppress(Exception):
                sys.modules[name].application(MISTAKE)(MISTAKE, standalone_mode=False)
    # a first compilation, or kernel from the disk, takes a fifth of a second to get ready for
    numba.njit(lambda: None)()
    gc.freeze()  # what children share with this process stays shared
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if not child:
            return request
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    return None


def become(request):
    """Be a process that was started for this request."""
    import signal

    signal.alarm(PATIENCE)
    for number in (signal.SIGTERM, signal.SIGHUP):  # which a shell or a test may have ignored
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    for number, name in enumerate(request["streams"]):
        place = os.open(name, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(place, number)
        os.close(place)
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.argv = ["embedx", *request["words"]]


def end(code):
    """Run Python code and end with its status, without the tidying of memory that takes longer than
    most commands.
    """
    status = 0
    try:
        exec(compile(code, "<command>", "exec"), {"__name__": "__main__"})
    except SystemExit as ended:
        status = ended.code or 0
    except BaseException:
        traceback.print_exc()
        status = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__" and (request := serve()) is not None:
    become(request)
    end(request["code"])
