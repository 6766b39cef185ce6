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
from pathlib import Path
from typing import Any

import typer

from embedx.errors import EmbedxError
from embedx.objectives import OBJECTIVES
from embedx.storage.folder import present
from tests.support import forked
from tests.support.checkpoints import arrays_of

SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
ENDED = (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, 130, 143)
EVERY = "0.1s"
LATER = 1.2  # times as long as an undisturbed run: the last moment to be killed at
PLACES = {"text": r"building-", "checkpoint": r"\.checkpoint", "model": r"\.(partial|replaced)-"}
DELAY = 0.01  # seconds after a file was changed, at most

# A command that counts how often it changes files, by place, and ends itself at one of these
# changes or at a time.
CODE = """
import json, os, re, sys, threading, time
from embedx.cli.app import main

asked = json.loads(os.environ["TO_KILL"])
places = {name: re.compile(path) for name, path in asked["places"].items()}
changes = dict.fromkeys(places, 0)

def end():
    time.sleep(asked["delay"])
    os.kill(os.getpid(), asked["sent"])

def watch(event, arguments):
    if event in ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir"):
        for name, path in places.items():
            if any(path.search(str(each)) for each in arguments[:2]):
                changes[name] += 1
                if (name, changes[name]) == (asked["place"], asked["number"]):
                    threading.Thread(target=end).start() if asked["delay"] else end()

sys.addaudithook(watch)
if asked["place"] == "anywhere":
    threading.Thread(target=end, daemon=True).start()
try:
    main()
finally:
    with open("changes.json", "w") as out:
        out.write(json.dumps(changes))
"""


def corpus(folder: Path) -> Path:
    """A text of two topics."""
    rng, path = random.Random(0), folder / "corpus.txt"
    words = [f"w{k}" for k in range(60)]
    path.write_text(
        "\n".join(" ".join(rng.choices(words, range(60, 0, -1), k=20)) for _ in range(2000)) + "\n"
    )
    return path


def commands(text: Path) -> dict[str, list[str]]:
    """The runs that are killed, by name, without their output and threads."""
    found = {}
    for name in OBJECTIVES:
        found[f"train-{name}"] = [
            "train",
            str(text),
            "--objective",
            name,
            "--dim",
            "16",
            "--epochs",
            "30",
        ]
        found[f"classify-{name}"] = ["classify", "digits", "--objective", name, "--epochs", "30"]
    found["collapsed"] = [
        "train",
        str(text),
        "--objective",
        "softmax",
        "--collapsed",
        "--epochs",
        "100",
    ]
    return found | {
        f"{name}-deterministic": [*each, "--deterministic"] for name, each in found.items()
    }


class Killer:
    """Runs commands and ends them."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        self.folder, self.rng = folder, rng
        self.killed: collections.Counter[str] = collections.Counter()  # how many runs, by place
        text = corpus(folder)
        self.commands = commands(text)
        self.wholes: dict[str, tuple[dict[str, bytes], float, dict[str, int]]] = {}
        self.old = folder / "old"
        self.run(
            [
                "train",
                str(text),
                "--dim",
                "8",
                "--epochs",
                "1",
                "--threads",
                "1",
                "--output",
                str(self.old),
            ]
        )

    def whole(self, name: str) -> tuple[dict[str, bytes], float, dict[str, int]]:
        """The arrays of a run that nobody disturbs, its seconds, and how often it changes files, by
        place.
        """
        while name not in self.wholes:
            output, cache, began = self.folder / name, self.folder / "cache", time.monotonic()
            code, printed = self.run(self.command(name, output, cache, 2))
            if code:
                raise RuntimeError(f"{name} ends with code {code}: {printed}")
            if "compiling kernels" not in printed:
                changes = json.loads((self.folder / "changes.json").read_text())
                self.wholes[name] = arrays_of(output), time.monotonic() - began, changes
            for each in (output, cache):
                shutil.rmtree(each, ignore_errors=True)
        return self.wholes[name]

    def command(self, name: str, output: Path, cache: Path, threads: int) -> list[str]:
        """A run with an output, and with so many threads if these may be several."""
        own = self.commands[name]
        threads = threads if "--deterministic" in own else 1
        places = ["--cache-dir", str(cache)] if own[0] == "train" else []
        return [
            *own,
            "--output",
            str(output),
            *places,
            "--threads",
            str(threads),
            "--checkpoint-every",
            EVERY,
        ]

    def run(self, arguments: list[str], **killed: Any) -> tuple[int, str]:
        """The exit code of a command and what it printed; ended by the signal `sent`, `delay`
        seconds after it has changed the `number`-th file at a `place`, or has started.
        """
        to_kill = {"places": PLACES, "place": "", "number": 0, "delay": 0.0, "sent": 0} | killed
        environment = forked.environment(self.folder) | {"TO_KILL": json.dumps(to_kill)}
        done = forked.run(*arguments, cwd=self.folder, env=environment, code=CODE, check=False)
        return done.returncode, done.stderr

    def run_and_kill(self, name: str, arguments: list[str]) -> tuple[int, str]:
        """The same, ended somewhere."""
        rng, (_, seconds, changes) = self.rng, self.whole(name)
        place = rng.choice(["anywhere", *(place for place in PLACES if changes[place])])
        delay = (
            rng.uniform(0, LATER * seconds)
            if place == "anywhere"
            else rng.choice([0.0, rng.uniform(0, DELAY)])
        )
        number = rng.randint(1, changes.get(place, 1))
        code, printed = self.run(
            arguments, place=place, number=number, delay=delay, sent=int(rng.choice(SIGNALS))
        )
        self.killed[place] += code in ENDED
        return code, printed

    def disturbed(self, name: str) -> str:
        """What went wrong with a run that was killed now and then; "" if it ended as it should."""
        rng, (whole, _, _) = self.rng, self.whole(name)
        output, cache = self.folder / f"{name}-killed", self.folder / "cache"
        # the latter: what may be in the place of the model
        more, known = ["--resume"], [whole, None]
        if rng.random() < 0.5:
            shutil.copytree(self.old, output)
            more.append("--overwrite")
            known = [whole, arrays_of(self.old)]
        try:
            for kills in range(rng.randint(2, 5), -1, -1):
                arguments = [*self.command(name, output, cache, rng.randint(1, 3)), *more]
                code, printed = self.run_and_kill(name, arguments) if kills else self.run(arguments)
                if code == 0 or (code == 2 and "exists already" in printed):
                    break
                if code not in ENDED or not kills:
                    return f"{code}: {printed.splitlines()[-1:]}"
                there = present(output)
                if code in (130, 143) and there.exists() and is_readable(there):
                    known.append(arrays_of(there))
                if (arrays_of(there) if there.exists() else None) not in known:
                    return f"after {code} the model in its place is neither the old nor a new one"
            same = arrays_of(output) == whole
            left = (
                [*self.folder.glob(f"{output.name}.*"), *cache.glob("building-*")]
                if code == 0
                else []
            )
            return (
                ""
                if same and not left
                else f"other arrays than undisturbed: {not same}, left behind: {left}"
            )
        finally:
            for each in (cache, *self.folder.glob(f"{output.name}*")):
                shutil.rmtree(each, ignore_errors=True)


def is_readable(folder: Path) -> bool:
    """Whether there is a model in a folder that can be loaded."""
    from embedx.classification import classifier
    from embedx.storage.folder import task_of
    from embedx.vectors.model import load_folder

    try:
        load_folder(folder) if task_of(folder) == "skipgram" else classifier.load(folder)
    except EmbedxError:
        return False
    return True


def main(runs: int = 200, seed: int = 1, seconds: float = float("inf"), only: str = "") -> None:
    """Runs whose name has `only` in it; the last one begins before so many seconds."""
    rng, wrong, ended, began = random.Random(seed), 0, 0, time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        killer = Killer(Path(name), rng)
        order = [each for each in sorted(killer.commands) if only in each]
        rng.shuffle(order)
        while ended < runs and time.monotonic() - began < seconds:
            run_name = order[ended % len(order)]
            problem = killer.disturbed(run_name)
            ended, wrong = ended + 1, wrong + bool(problem)
            if problem:
                print(f"{run_name}: {problem}", flush=True)
    where = ", ".join(f"{n} {place}" for place, n in sorted(killer.killed.items()))
    print(
        f"{ended} runs, killed {sum(killer.killed.values())} times ({where}); {wrong} of them wrong"
    )
    sys.exit(bool(wrong))


if __name__ == "__main__":
    typer.run(main)
