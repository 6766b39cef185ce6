"""Runs of the command line that end at a checkpoint, and what they leave behind."""

import math
from typing import NamedTuple

import numpy as np

from embedx.runtime.progress import Silent
from embedx.tasks.requests import TrainRequest
from embedx.training import checkpoint
from embedx.training.checkpoint import Checkpoints, Command
from embedx.training.state import TrainState
from tests.support import forked
from tests.support.forked import environment


class Pair(NamedTuple):
    numbers: np.ndarray
    place: int


def a_command(every=0.0, resumes=False, **arguments):
    arguments = {"corpora": ["a.txt"], "typed": {}, **arguments}
    free = TrainRequest(corpora=[], typed=arguments["typed"]).free_names()
    return Command("train", arguments, every, resumes, free)


def checkpoints_of(folder, progress, *, every=math.inf, resumes=False):
    """The checkpoints of a run whose output is `folder/out`."""
    return Checkpoints(folder / "out", Command("train", {}, every, resumes), False, progress)


def a_state(n=5, place=7):
    """A state with a value of each kind, and where they are kept."""
    return state_of(
        {
            "array": np.arange(n, dtype=np.float32),
            "number": 0.1,
            "none": None,
            "list": [1, float("-inf"), {"a": np.ones(2)}],
            "pair": Pair(np.arange(3), place),
            "word": "x",
        }
    )


def state_of(kept):
    """A state of these values by name, and where they are kept."""
    state = TrainState()
    for name in kept:
        state.add(
            name,
            lambda name=name: kept[name],
            lambda value, name=name: kept.__setitem__(name, value),
        )
    return state, kept


def left_behind(output, identity=None, **arguments):
    """A checkpoint of a run that ended."""
    writing = Checkpoints(output, a_command(**arguments), False, Silent())
    writing.begin(lambda: identity or {})
    state, _ = a_state()
    writing.take(state, wait=True)
    checkpoint.locks.unlock(writing.lock)
    return state


def arrays_of(folder):
    return {
        file.name: file.read_bytes() for file in folder.iterdir() if file.suffix in (".npy", ".tsv")
    }


ENDED = """
import os, sys
from embedx.cli.app import main
from embedx.training import checkpoint

sent, moment = int(sys.argv[1]), sys.argv[2]

def ended(work):
    def done(*arguments):
        if moment == "after":
            work(*arguments)
        os.kill(os.getpid(), sent)
        if moment == "before":
            work(*arguments)
    return done

if moment == "after":
    checkpoint.Checkpoints._write = ended(checkpoint.Checkpoints._write)
else:  # the state is complete, but has not its name yet
    checkpoint.atomic.sync = ended(checkpoint.atomic.sync)
sys.argv = ["embedx", *sys.argv[3:]]
main()
"""


def end_at_a_checkpoint(command, home, sent, moment="after"):
    """Run a command, and have it end itself by a signal when it has written its first state, or
    before that has its name.
    """
    words = [str(int(sent)), moment, *command, "--checkpoint-every", "0.01s"]
    done = forked.run(*words, cwd=home, env=environment(home), code=ENDED, check=False)
    return done.returncode, done.stderr
