"""Kills runs at random moments and resumes them: `python -m tests.kills --runs 200 --seed 1`, an
hour on two cores.

A run of a random objective and task, with one thread or `--deterministic` with several, is ended by
SIGKILL, SIGTERM or SIGINT: at a random moment between its start and some time after its end would
be due, or when it changes a file of the encoded text, of its checkpoints or of its model, which may
replace an older one, or a few milliseconds after that. After two to five of these it is resumed and
left alone. It must end with the arrays of a run that nobody disturbed, or say in one line that this
model is there already; and after each kill the model in its place must be a whole one. Prints each
run that does not, and how many were killed where.
"""

import collections
import json
import random
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import typer

from embedx.errors import EmbedxError
from embedx.objectives import OBJECTIVES
from embedx.storage.replacement import current_path
from tests.support import forked
from tests.support.checkpoints import arrays_of

SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
ENDED = (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, 130, 143)
INTERRUPTED = (130, 143)
CHECKPOINT_EVERY = "0.1s"
# The last moment to be killed at, in durations of an undisturbed run.
LAST_MOMENT = 1.2
# Files that a run changes.
PLACES = {"text": r"building-", "checkpoint": r"\.checkpoint", "model": r"\.(partial|replaced)-"}
ANYWHERE = "anywhere"
MAX_SECONDS_AFTER_CHANGE = 0.01

# A command that counts how often it changes files, by place, and ends itself at one of these
# changes or at a time.
CODE = """
import json, os, re, sys, threading, time
from embedx.cli.app import main

kill = json.loads(os.environ["TO_KILL"])
places = {name: re.compile(path) for name, path in kill["places"].items()}
changes = dict.fromkeys(places, 0)

def end():
    time.sleep(kill["delay"])
    os.kill(os.getpid(), kill["signal"])

def watch(event, arguments):
    if event in ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir"):
        for name, path in places.items():
            if any(path.search(str(argument)) for argument in arguments[:2]):
                changes[name] += 1
                if (name, changes[name]) == (kill["place"], kill["number"]):
                    if kill["delay"]:
                        threading.Thread(target=end).start()
                    else:
                        end()

sys.addaudithook(watch)
if kill["place"] == "anywhere":
    threading.Thread(target=end, daemon=True).start()
try:
    main()
finally:
    with open("changes.json", "w") as out:
        out.write(json.dumps(changes))
"""


Arrays = dict[str, bytes]


class Undisturbed(NamedTuple):
    """A run that nobody disturbed.

    n_changes  how often it changes files, by place
    """

    arrays: Arrays
    seconds: float
    n_changes: dict[str, int]


@dataclass(frozen=True)
class Kill:
    """A signal that a command sends itself, `delay` seconds after its `number`-th change of a file
    at a place, or anywhere: after its start; by default never.
    """

    place: str = ""
    number: int = 0
    delay: float = 0.0
    signal: int = 0


def corpus(folder: Path) -> Path:
    """A text of two topics."""
    rng = random.Random(0)
    words = [f"w{k}" for k in range(60)]
    weights = range(60, 0, -1)
    lines = [" ".join(rng.choices(words, weights, k=20)) for _ in range(2000)]
    path = folder / "corpus.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


def commands(text: Path) -> dict[str, list[str]]:
    """The runs that are killed, by name, without their output and threads."""
    train = ["train", str(text)]
    classify = ["classify", "digits"]
    runs = {"collapsed": [*train, *["--objective", "softmax", "--collapsed", "--epochs", "100"]]}
    for name in OBJECTIVES:
        objective = ["--objective", name, "--epochs", "30"]
        runs[f"train-{name}"] = [*train, *objective, "--dim", "16"]
        runs[f"classify-{name}"] = [*classify, *objective]
    for name, command in list(runs.items()):
        runs[f"{name}-deterministic"] = [*command, "--deterministic"]
    return runs


class Killer:
    """Runs commands and ends them."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        self.folder = folder
        self.cache = folder / "cache"
        self.rng = rng
        self.n_killed: collections.Counter[str] = collections.Counter()
        text = corpus(folder)
        self.commands = commands(text)
        self.undisturbed_runs: dict[str, Undisturbed] = {}
        self.old_model = folder / "old"
        options = ["--dim", "8", "--epochs", "1", "--threads", "1"]
        self.run(["train", str(text), *options, "--output", str(self.old_model)])

    def undisturbed(self, name: str) -> Undisturbed:
        """The run of this name that nobody disturbs, timed with its kernels compiled."""
        while name not in self.undisturbed_runs:
            output = self.folder / name
            began = time.monotonic()
            code, log = self.run(self.command(name, output, 2))
            seconds = time.monotonic() - began
            if code:
                raise RuntimeError(f"{name} ends with code {code}: {log}")
            if "compiling kernels" not in log:
                n_changes = json.loads((self.folder / "changes.json").read_text())
                run = Undisturbed(arrays_of(output), seconds, n_changes)
                self.undisturbed_runs[name] = run
            remove(output, self.cache)
        return self.undisturbed_runs[name]

    def command(self, name: str, output: Path, threads: int) -> list[str]:
        """A run with an output, and with so many threads if these may be several."""
        command = list(self.commands[name])
        if "--deterministic" not in command:
            threads = 1
        if command[0] == "train":
            command += ["--cache-dir", str(self.cache)]
        command += ["--output", str(output), "--threads", str(threads)]
        return [*command, "--checkpoint-every", CHECKPOINT_EVERY]

    def run(self, arguments: list[str], kill: Kill | None = None) -> tuple[int, str]:
        """The exit code of a command and what it printed."""
        to_kill = {"places": PLACES} | asdict(kill or Kill())
        environment = forked.environment(self.folder) | {"TO_KILL": json.dumps(to_kill)}
        completed = forked.run(*arguments, cwd=self.folder, env=environment, code=CODE, check=False)
        return completed.returncode, completed.stderr

    def run_and_kill(self, name: str, arguments: list[str]) -> tuple[int, str]:
        """The exit code of a command that is killed somewhere, and what it printed."""
        kill = self.random_kill(self.undisturbed(name))
        code, output = self.run(arguments, kill)
        self.n_killed[kill.place] += code in ENDED
        return code, output

    def random_kill(self, undisturbed: Undisturbed) -> Kill:
        """A kill at a moment of the run, or at one of its changes of files."""
        rng = self.rng
        changed_places = [place for place in PLACES if undisturbed.n_changes[place]]
        place = rng.choice([ANYWHERE, *changed_places])
        signal_number = int(rng.choice(SIGNALS))
        if place == ANYWHERE:
            delay = rng.uniform(0, LAST_MOMENT * undisturbed.seconds)
            return Kill(place, 0, delay, signal_number)
        number = rng.randint(1, undisturbed.n_changes[place])
        delay = rng.choice([0.0, rng.uniform(0, MAX_SECONDS_AFTER_CHANGE)])
        return Kill(place, number, delay, signal_number)

    def problem_of_disturbed(self, name: str) -> str:
        """What went wrong with a run that was killed now and then; "" if it ended as it should."""
        output = self.folder / f"{name}-killed"
        try:
            return self.problem_of_resumed(name, output)
        finally:
            remove(self.cache, *self.folder.glob(f"{output.name}*"))

    def problem_of_resumed(self, name: str, output: Path) -> str:
        """What went wrong with a run that was killed two to five times, then left alone."""
        options = ["--resume"]
        # what may be in the place of the model
        known = [self.undisturbed(name).arrays, None]
        if self.rng.random() < 0.5:
            shutil.copytree(self.old_model, output)
            options.append("--overwrite")
            known[1] = arrays_of(self.old_model)
        for _ in range(self.rng.randint(2, 5)):
            command = self.command(name, output, self.rng.randint(1, 3))
            code, log = self.run_and_kill(name, command + options)
            if is_complete(code, log):
                return self.problem_at_end(name, output, code)
            problem = problem_after_kill(code, log, output, known)
            if problem:
                return problem
        code, log = self.run(self.command(name, output, self.rng.randint(1, 3)) + options)
        if is_complete(code, log):
            return self.problem_at_end(name, output, code)
        return last_line(code, log)

    def problem_at_end(self, name: str, output: Path, code: int) -> str:
        """What is wrong with a run that is complete, or was before."""
        if arrays_of(output) != self.undisturbed(name).arrays:
            return "other arrays than undisturbed"
        leftovers = [*self.folder.glob(f"{output.name}.*"), *self.cache.glob("building-*")]
        if code == 0 and leftovers:
            return f"left behind: {leftovers}"
        return ""


def remove(*folders: Path) -> None:
    """Delete folders, those that are there."""
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def is_complete(code: int, output: str) -> bool:
    """Whether a run ended well, or says that its model is there already."""
    return code == 0 or (code == 2 and "exists already" in output)


def last_line(code: int, output: str) -> str:
    """How a run ended that should not have."""
    return f"{code}: {output.splitlines()[-1:]}"


def problem_after_kill(code: int, log: str, output: Path, known: list[Arrays | None]) -> str:
    """What is wrong after a kill. An interrupted run may save what it has, which then is known."""
    if code not in ENDED:
        return last_line(code, log)
    folder = current_path(output)
    arrays = arrays_of(folder) if folder.exists() else None
    if code in INTERRUPTED and arrays is not None and is_readable(folder):
        known.append(arrays)
    if arrays not in known:
        return f"after {code} the model in its place is neither the old nor a new one"
    return ""


def is_readable(folder: Path) -> bool:
    """Whether there is a model in a folder that can be loaded."""
    from embedx.classification import classifier
    from embedx.storage.folder import task_of_model
    from embedx.vectors.model import load_folder

    try:
        if task_of_model(folder) == "skipgram":
            load_folder(folder)
        else:
            classifier.load(folder)
    except EmbedxError:
        return False
    return True


def main(runs: int = 200, seed: int = 1, seconds: float = float("inf"), only: str = "") -> None:
    """Runs whose name has `only` in it; the last one begins before so many seconds."""
    rng = random.Random(seed)
    n_runs = 0
    n_wrong = 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        killer = Killer(Path(folder), rng)
        names = [name for name in sorted(killer.commands) if only in name]
        rng.shuffle(names)
        while n_runs < runs and time.monotonic() - began < seconds:
            name = names[n_runs % len(names)]
            problem = killer.problem_of_disturbed(name)
            n_runs += 1
            if problem:
                n_wrong += 1
                print(f"{name}: {problem}", flush=True)
    n_kills = sum(killer.n_killed.values())
    places = ", ".join(f"{n} {place}" for place, n in sorted(killer.n_killed.items()))
    print(f"{n_runs} runs, killed {n_kills} times ({places}); {n_wrong} of them wrong")
    sys.exit(n_wrong > 0)


if __name__ == "__main__":
    typer.run(main)
