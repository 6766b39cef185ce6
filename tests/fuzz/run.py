"""Cases, each tried in a process of its own kind: one that a crash may end, with little memory, under a watch."""

import json
import os
import random
import resource
import selectors
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

MEMORY = 1 << 31  # bytes that a case may ask for beyond what Python and its libraries have
CPU_SECONDS = 30  # of one case; the slowest takes two
WAIT = 300  # seconds without news, however busy the machine is
ROOT = Path(__file__).parents[2]


@dataclass
class Report:
    """What came of the cases that were tried."""

    tried: Counter = field(default_factory=Counter)  # by target
    read: Counter = field(default_factory=Counter)  # those that were valid after all
    findings: list[tuple[str, str]] = field(default_factory=list)  # (TARGET:SEED, what is wrong)


def tried(target, seed, folder):
    """Try one case in an empty folder: "" if it was read, the line that refused it, or a traceback as the second value."""
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


def work():
    """Try the cases named on standard input, TARGET:SEED in each line; tell what came of each."""
    from .targets import TARGETS

    with tempfile.TemporaryDirectory() as folder:  # all that is imported or compiled on first use, before memory is counted
        for target in TARGETS:
            for seed in range(2):
                case = Path(folder) / f"{target} {seed}"
                case.mkdir()
                tried(target, f"first {seed}", case)
    if Path("/proc/self/statm").exists():  # Linux tells how much it has
        used = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    threading.excepthook = ended_by
    print("ready", flush=True)
    for case in sys.stdin:
        target, _, seed = case.strip().partition(":")
        with tempfile.TemporaryDirectory() as folder:
            line, wrong = tried(target, seed, Path(folder))
        print(json.dumps([case.strip(), line, wrong]), flush=True)


def ended_by(thread):
    """A traceback of another thread is one too."""
    traceback.print_exception(thread.exc_value)
    os._exit(1)


class Worker:
    """A process that tries cases until one ends it."""

    def __init__(self):
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 (as long as the process)
        self.process = subprocess.Popen(
            [sys.executable, "-c", "from tests.fuzz.run import work; work()"],
            cwd=ROOT, env=os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONFAULTHANDLER": "1"},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True,
        )  # fmt: skip
        self._answer()

    def ask(self, case):
        """(line that refused it, what is wrong)."""
        try:
            self.process.stdin.write(f"{case}\n")
            self.process.stdin.flush()
            answer = self._answer()
        except BrokenPipeError:
            answer = ""
        if not answer:
            printed = self.close()[-2000:]
            return "", f"ended with code {self.process.returncode}, or was silent for {WAIT} s: {printed}"
        return tuple(json.loads(answer)[1:])

    def _answer(self):
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            return self.process.stdout.readline() if selector.select(WAIT) else ""

    def close(self):
        """End the process; what it told on standard error."""
        self.process.kill()
        self.process.communicate()
        with self.errors:
            self.errors.seek(0)
            return self.errors.read().decode("utf-8", "replace")


def run(cases, printed=None):
    """Try the cases, TARGET:SEED each; `told` is called with every finding."""
    report = Report()
    worker = None
    try:
        for case in cases:
            worker = worker or Worker()
            line, wrong = worker.ask(case)
            target = case.partition(":")[0]
            report.tried[target] += 1
            if wrong:
                report.findings.append((case, wrong))
                if printed:
                    printed(case, wrong)
            elif not line:
                report.read[target] += 1
            if worker.process.poll() is not None:
                worker = None
    finally:
        if worker:
            worker.close()
    return report
