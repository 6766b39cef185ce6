"""Kills runs at random moments and resumes them: `python -m tests.kills --runs 200 --seed 1`, an hour on two cores.

A run of a random objective and task is ended by SIGKILL, SIGTERM or SIGINT at a random moment between its start and some time
after its end would be due: while it reads, trains, writes its state or its model, or while it is resumed. After one to three of
these it is resumed and left alone. It must end with the arrays of a run that nobody disturbed. Prints each that does not.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from embedx.objectives import OBJECTIVES
from tests.test_checkpoint import COMMAND, arrays_of

SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
ENDED = (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, 130, 143)
EVERY = "0.1s"
LATER = 1.2  # times as long as an undisturbed run: the last moment to be killed at


def corpus(folder: Path) -> Path:
    """A text of two topics."""
    rng, path = random.Random(0), folder / "corpus.txt"
    words = [f"w{k}" for k in range(60)]
    path.write_text("\n".join(" ".join(rng.choices(words, range(60, 0, -1), k=20)) for _ in range(2000)) + "\n")
    return path


def commands(text: Path) -> dict[str, list[str]]:
    """The runs that are killed, by name, without their output."""
    found = {}
    for name in OBJECTIVES:
        few = ["--objective", name, "--threads", "1"]
        found[f"train-{name}"] = ["train", str(text), *few, "--dim", "16", "--epochs", "30"]
        found[f"classify-{name}"] = ["classify", "digits", *few, "--epochs", "30"]
    found["collapsed"] = ["train", str(text), "--objective", "softmax", "--collapsed", "--threads", "1", "--epochs", "100"]
    return found


def run(arguments: list[str], folder: Path, kill_after: float | None = None, sent: int = signal.SIGKILL) -> tuple[int, str]:
    """The exit code of a command and the last line that it told; ended by a signal after so many seconds."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    process = subprocess.Popen(
        [*COMMAND, *arguments], cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        _, told = process.communicate(timeout=kill_after)
    except subprocess.TimeoutExpired:
        process.send_signal(sent)
        _, told = process.communicate()
    return process.returncode, (told.splitlines() or [""])[-1]


def disturbed(
    name: str, arguments: list[str], whole: dict[str, bytes], seconds: float, folder: Path, rng: random.Random
) -> str:
    """What went wrong with a run that was killed now and then; "" if it ended as it should."""
    output = folder / f"{name}-killed"
    command = [*arguments, "--output", str(output), "--checkpoint-every", EVERY, "--resume"]
    kills = rng.randint(1, 3)
    while not output.exists() or list(folder.glob(f"{output.name}.checkpoint")):  # it is not over
        kills -= 1
        kill_after = rng.uniform(0, LATER * seconds) if kills >= 0 else None
        code, told = run(command, folder, kill_after, rng.choice(SIGNALS))
        if code not in (0, *ENDED) or (code and kill_after is None):
            return f"{code}: {told}"
    same = arrays_of(output) == whole
    left = [each.name for each in folder.glob(f"{output.name}.*")]
    shutil.rmtree(output)
    return "" if same and not left else f"other arrays than undisturbed: {not same}, left behind: {left}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    rng, wrong = random.Random(asked.seed), 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        known, wholes = commands(corpus(folder)), {}
        for number in range(asked.runs):
            run_name = rng.choice(sorted(known))
            if run_name not in wholes:
                output = folder / run_name
                run([*known[run_name], "--output", str(output)], folder)  # compiles
                began = time.monotonic()
                run([*known[run_name], "--output", str(output), "--overwrite"], folder)
                wholes[run_name] = arrays_of(output), time.monotonic() - began
            problem = disturbed(run_name, known[run_name], *wholes[run_name], folder, rng)
            wrong += bool(problem)
            if problem:
                print(f"{number}: {run_name}: {problem}", flush=True)
    print(f"{asked.runs} runs killed, {wrong} of them wrong")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
