"""What a way of training must offer for workers to share it: the two sides of what they exchange.

Where all of them train the same tables, that follows from the parameters, by what becomes of these when copies are merged.
"""

import abc

from embedx.cluster.exchange import Apart, InCommon
from embedx.cluster.shared import Common, Copies, Parameters, compile_merging
from embedx.run.strategy import Strategy


class Divided(Strategy):
    """A strategy whose stretches several workers can train at once."""

    @abc.abstractmethod
    def in_common(self) -> InCommon:
        """The run's side of what is exchanged, of this strategy's live values; after `compile`."""

    @abc.abstractmethod
    def apart(self) -> Apart:
        """A worker's side of it, likewise."""

    def is_done(self, epoch: int, stretches: range) -> bool:
        """Whether nothing is left to train in these stretches of a pass."""
        return False


class Shareable(Divided):
    """A strategy that several workers can train at once, each with a copy of the parameters."""

    @abc.abstractmethod
    def parameters(self) -> Parameters:
        """What workers share, as live arrays; after `compile`."""

    def in_common(self) -> InCommon:
        compile_merging(self.parameters())  # here, which on one machine is for its workers too
        return Common(self.parameters())

    def apart(self) -> Apart:
        compile_merging(self.parameters())
        return Copies(self.parameters())
