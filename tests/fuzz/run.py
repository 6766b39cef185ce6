"""Cases, tried in another process: one that a crash may end, with little memory, under a time
limit.
"""

import faulthandler
import multiprocessing
import os
import random
import resource
import tempfile
import threading
import time
import traceback
import warnings
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

MEMORY = 1 << 31  # bytes that a case may ask for beyond what Python and its libraries have
CPU_SECONDS = 30  # of one case; the slowest takes two
WAIT = 300  # seconds for one case, however busy the machine is


def tried(target, seed, folder):
    """Try one case in an empty folder: (the line that refused it or "", what is wrong or "")."""
    from embedx.errors import EmbedxError

    from .targets import TARGETS

    rng = random.Random(f"{target} {seed}")
    reading = TARGETS[target](folder, rng)
    began = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a warning is a second line
            reading()
        line = ""
    except EmbedxError as error:
        line = str(error)
        if not line.strip() or len(line.splitlines()) > 1 or "given" not in line:
            return line, f"not one line with the file's name: {line!r}"
    except BaseException:
        return "", traceback.format_exc()
    if (seconds := time.process_time() - began) > CPU_SECONDS:
        return line, f"took {seconds:.0f} s"
    return line, ""


def prepare():
    """Import and compile all that is needed on first use, then limit the memory."""
    from .targets import TARGETS

    for target in TARGETS:
        for seed in range(2):
            in_new_folder(f"{target}:first {seed}")
    if Path("/proc/self/statm").exists():  # Linux tells how much it has
        used = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    threading.excepthook = end_by


def in_new_folder(case):
    """`tried` for TARGET:SEED in a temporary folder; what hangs ends the process, and
    prints where.
    """
    target, _, seed = case.partition(":")
    faulthandler.dump_traceback_later(WAIT, exit=True)
    with tempfile.TemporaryDirectory() as folder:
        found = tried(target, seed, Path(folder))
    faulthandler.cancel_dump_traceback_later()
    return found


def end_by(thread):
    """A traceback of another thread is one too."""
    traceback.print_exception(thread.exc_value)
    os._exit(1)


def run(cases, work=in_new_folder):
    """(case, the line that refused it or "", what is wrong or "") of each case, TARGET:SEED."""
    pool = None
    for case in cases:
        pool = pool or ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), prepare)
        try:
            yield case, *pool.submit(work, case).result()
        except BrokenProcessPool:
            pool = None
            yield case, "", "ended its process"
    if pool:
        pool.shutdown()
