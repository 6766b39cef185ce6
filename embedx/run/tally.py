"""What a chunk of training, or many of them, did."""

from dataclasses import dataclass


@dataclass
class Tally:
    """What was done, summed in float64."""

    loss: float = 0.0
    pairs: float = 0  # what the loss is a sum over: pairs of words, labels or rows
    words: int = 0  # words of the vocabulary read, before subsampling; or examples

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(self.loss + other.loss, self.pairs + other.pairs, self.words + other.words)

    def since(self, earlier: "Tally") -> "Tally":
        """What was done after `earlier`."""
        return Tally(self.loss - earlier.loss, self.pairs - earlier.pairs, self.words - earlier.words)

    def numbers(self) -> list[float]:
        """What `Tally(*numbers)` is made of."""
        return [self.loss, self.pairs, self.words]

    @property
    def mean_loss(self) -> float | None:
        """Loss per pair, in the unit of the strategy; None if there was no pair."""
        return self.loss / self.pairs if self.pairs else None
