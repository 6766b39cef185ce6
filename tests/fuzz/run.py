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

# Bytes that a case may ask for beyond what Python and its libraries have.
MAX_BYTES_OF_CASE = 1 << 31
# The slowest case takes two seconds.
MAX_CPU_SECONDS = 30
# Seconds for one case, however busy the machine is.
MAX_WAIT = 300


def tried(target, seed, folder):
    """Try one case in an empty folder: (the line that refused it or "", the problem or "")."""
    from embedx.errors import EmbedxError

    from .targets import TARGETS

    rng = random.Random(f"{target} {seed}")
    reading = TARGETS[target](folder, rng)
    began = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a warning is a second line
            reading()
        refusal = ""
    except EmbedxError as error:
        refusal = str(error)
        if not names_the_file_in_one_line(refusal):
            return refusal, f"not one line with the file's name: {refusal!r}"
    except BaseException:
        return "", traceback.format_exc()
    seconds = time.process_time() - began
    if seconds > MAX_CPU_SECONDS:
        return refusal, f"took {seconds:.0f} s"
    return refusal, ""


def names_the_file_in_one_line(refusal):
    """Whether a message is one line, with the name of the files that targets write."""
    return len(refusal.splitlines()) == 1 and "given" in refusal


def prepare():
    """Import and compile all that is needed on first use, then limit the memory."""
    from .targets import TARGETS

    for target in TARGETS:
        for seed in range(2):
            in_new_folder(f"{target}:first {seed}")
    if Path("/proc/self/statm").exists():  # Linux tells how much it has
        n_pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
        max_bytes = n_pages * resource.getpagesize() + MAX_BYTES_OF_CASE
        resource.setrlimit(resource.RLIMIT_AS, (max_bytes, max_bytes))
    threading.excepthook = end_by


def in_new_folder(case):
    """`tried` for TARGET:SEED in a temporary folder; what hangs ends the process, and
    prints where.
    """
    target, _, seed = case.partition(":")
    faulthandler.dump_traceback_later(MAX_WAIT, exit=True)
    with tempfile.TemporaryDirectory() as folder:
        outcome = tried(target, seed, Path(folder))
    faulthandler.cancel_dump_traceback_later()
    return outcome


def end_by(thread):
    """A traceback of another thread is one too."""
    traceback.print_exception(thread.exc_value)
    os._exit(1)


def run(cases, work=in_new_folder):
    """(case, the line that refused it or "", the problem or "") of each case, TARGET:SEED."""
    pool = None
    for case in cases:
        if pool is None:
            pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), prepare)
        try:
            yield case, *pool.submit(work, case).result()
        except BrokenProcessPool:
            pool = None
            yield case, "", "ended its process"
    if pool:
        pool.shutdown()
