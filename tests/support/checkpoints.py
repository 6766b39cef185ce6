"""Runs of the command line that end at a checkpoint, and what they leave behind."""

import math
from typing import NamedTuple

import numpy as np

from embedx.runtime.progress import Silent
from embedx.tasks.requests import TrainRequest
from embedx.training import checkpoint
from embedx.training.checkpoint import Checkpoints
from embedx.training.run_command import RunCommand
from embedx.training.state import TrainState
from tests.support import forked
from tests.support.forked import environment


class Pair(NamedTuple):
    numbers: np.ndarray
    place: int


def checkpoints_of(
    output,
    progress=None,
    *,
    every=math.inf,
    resume=False,
    overwrite=False,
    kind=Checkpoints,
    **arguments,
):
    """The checkpoints of `embedx train a.txt`, perhaps with other arguments, of a class `kind`."""
    arguments = {"corpora": ["a.txt"], "options": {}, **arguments}
    return kind(
        output,
        RunCommand("train", arguments),
        progress or Silent(),
        every=every,
        resume=resume,
        overwrite=overwrite,
        changeable=TrainRequest(corpora=[], options=arguments["options"]).changeable_names(),
    )


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
    writing = checkpoints_of(output, **arguments)
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
from embedx.training import checkpoint, state_file

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
    state_file.atomic.sync = ended(state_file.atomic.sync)
sys.argv = ["embedx", *sys.argv[3:]]
main()
"""


def end_at_a_checkpoint(command, home, sent, moment="after"):
    """Run a command, and have it end itself by a signal when it has written its first state, or
    before that has its name.
    """
    words = [str(int(sent)), moment, *command, "--checkpoint-every", "0.01s"]
    completed = forked.run(*words, cwd=home, env=environment(home), code=ENDED, check=False)
    return completed.returncode, completed.stderr
