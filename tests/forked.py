"""Commands in processes of their own, each forked from one that has imported what they need: a second less for each.

What a process imports, and how it starts, is for tests that start one from nothing.
"""

import atexit
import functools
import gc
import json
import os
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

ROOT = Path(__file__).parent.parent
COMMAND = "from embedx.cli.app import main\nmain()"
PATIENCE = 300  # seconds
CAN_FORK = sys.platform == "linux"  # elsewhere a child may not use all of the system's libraries


def run(*arguments, cwd, env, code=COMMAND, check=True, input=""):
    """Run `embedx` with these arguments, or other Python `code` with them in sys.argv; its completed process.

    `env` is an `environment`, or more than that. Standard output and error are files.
    """
    words = [str(argument) for argument in arguments]
    if not CAN_FORK:
        how = {"input": input, "capture_output": True, "text": True, "timeout": PATIENCE, "check": False}
        done = subprocess.run([sys.executable, "-c", code, *words], cwd=cwd, env=env, **how)
    else:
        with tempfile.TemporaryDirectory() as folder:
            streams = [str(Path(folder, name)) for name in ("in", "out", "err")]
            Path(streams[0]).write_text(input)
            server = _server(env["NUMBA_CACHE_DIR"])
            request = {"code": code, "words": words, "cwd": str(cwd), "environment": dict(env), "streams": streams}
            print(json.dumps(request), file=server.stdin, flush=True)
            returned = int(server.stdout.readline())
            out, err = (Path(name).read_text("utf-8") for name in streams[1:])
        done = subprocess.CompletedProcess(words, returned, out, err)
    assert not check or done.returncode == 0, done.stderr
    return done


def environment(home):
    """That of commands which keep all but kernels in `home`; kernels are shared with the other tests."""
    from embedx.kernels.compiled import KERNEL_FOLDER

    return os.environ | {"EMBEDX_CACHE_DIR": str(Path(home, "cache")), "NUMBA_CACHE_DIR": str(Path(KERNEL_FOLDER).parent)}


@functools.cache
def _server(kernels):
    """The process that forks, one for each place where kernels are kept."""
    environment = os.environ | {"NUMBA_CACHE_DIR": kernels}
    environment["OPENBLAS_NUM_THREADS"] = "1"  # what forks has no other threads
    command = [sys.executable, "-m", "tests.forked"]
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    server = subprocess.Popen(command, cwd=ROOT, env=environment, start_new_session=True, **streams)
    atexit.register(_end, server)
    return server


def _end(server):
    server.communicate()


def serve():
    """Fork for each request; in the child, which returns, the request. None at the end."""
    import smart_open  # noqa: F401

    import embedx.classification.task
    import embedx.cli.app
    import embedx.cli.commands
    import embedx.cli.corpus
    import embedx.skipgram.collapsed
    import embedx.skipgram.task
    import embedx.text.sources
    import embedx.vectors.formats  # noqa: F401

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
    """Run Python code and end with its status, without the tidying of memory that takes longer than most commands."""
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
