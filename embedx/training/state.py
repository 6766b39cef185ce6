"""The state of a run: everything that it needs to be resumed, by name.

It is used by checkpoints, rollbacks and exact resumption. A value is a numpy array, a number, or a
list, dict or NamedTuple of these. It does not include what follows from settings and data (random
numbers, the order of examples, held-out text), nor workspaces, whose contents do not outlast a
chunk. L-BFGS, run by scipy, has no state that can be resumed.

    state = run.state()
    kept = state.snapshot()           a copy of all values
    ...
    run.state().restore(kept)         the same run, or another one that was set up alike, continues
                                      from there
"""

import copy
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Value:
    """One value of a run's state.

    read   returns the current value; an array may be a view of live data
    write  replaces the value
    """

    read: Callable[[], Any]
    write: Callable[[Any], None]


@dataclass
class TrainState:
    """The values of a run by unique name, with a prefix for its part, such as `outputs.rows`."""

    values: dict[str, Value] = field(default_factory=dict)
    # With this lock, values may be read while threads train; None: threads must pause.
    read_lock: AbstractContextManager[Any] | None = None

    def add(self, name: str, read: Callable[[], Any], write: Callable[[Any], None]) -> None:
        """Add a value that is read and written by these functions. A written value is not changed
        later.
        """
        if name in self.values:
            raise ValueError(f"the state has a value {name} already")
        self.values[name] = Value(read, write)

    def add_array(self, name: str, array: np.ndarray) -> None:
        """Add an array that is the same object during the run, and is written in place."""
        self.add(name, lambda: array, lambda value: np.copyto(array, value))

    def add_attribute(self, name: str, owner: Any, attribute: str) -> None:
        """Add an attribute of an object."""
        self.add(
            name,
            lambda: getattr(owner, attribute),
            lambda value: setattr(owner, attribute, copy.deepcopy(value)),
        )

    def include(self, other: "TrainState") -> None:
        """Add all values of another state."""
        for name, value in other.values.items():
            self.add(name, value.read, value.write)
        self.read_lock = self.read_lock or other.read_lock

    def live_values(self) -> dict[str, Any]:
        """The current values by name; arrays may be views of live data."""
        return {name: value.read() for name, value in self.values.items()}

    def snapshot(self) -> dict[str, Any]:
        """A copy of every value, which training does not change."""
        return {name: copy.deepcopy(value) for name, value in self.live_values().items()}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Restore every value. Raises `ValueError`, and changes nothing, if names or shapes of
        arrays differ.
        """
        if snapshot.keys() != self.values.keys():
            others = sorted(snapshot.keys() ^ self.values.keys())
            raise ValueError(f"the state has other values: {', '.join(others)}")
        for name, value in self.values.items():
            now = value.read()
            if not isinstance(now, np.ndarray):
                continue
            shape = np.shape(snapshot[name])
            if now.shape != shape:
                raise ValueError(f"{name}: shape {shape} where the run has {now.shape}")
        for name, value in self.values.items():
            value.write(snapshot[name])
