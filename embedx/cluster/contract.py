"""What a way of training must offer for workers to share it: its parameters, by what becomes of them when copies are merged."""

import abc
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from embedx.optimizers.contract import Table, UpdateRule
from embedx.run.strategy import Strategy


@dataclass(frozen=True)
class Parameters:
    """Everything that training changes and that workers share; arrays stay where they are for the whole run.

    Tables are merged row by row by `embedx.engine.merging`. Of what an objective keeps of a word or an example, that of whoever
    updated it last counts, and the numbers of updates are summed.
    """

    tables: Mapping[str, Table]
    optimizer: UpdateRule
    state: np.ndarray  # (n, width), the objective's own; width 0 if it keeps none
    n_updates: np.ndarray  # int64 (n,)
    # By table, float32 (n_rows,): how often a row is updated for each word, or example, that is trained; none is as 0
    uses: Mapping[str, np.ndarray] = field(default_factory=dict)


class Shareable(Strategy):
    """A strategy that several workers can train at once, each with a copy of the parameters."""

    @abc.abstractmethod
    def parameters(self) -> Parameters:
        """What workers share, as live arrays; after `compile`."""
