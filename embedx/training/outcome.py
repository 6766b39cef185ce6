"""The result of a training loop: losses, times, rates, why it ended early; and its loss curve."""

from dataclasses import dataclass, field, replace

from embedx.errors import DivergedError, EmbedxError, InapplicableError
from embedx.settings import Record
from embedx.training.state import TrainState
from embedx.training.strategy import Tally


@dataclass
class Outcome:
    """The result of a run. Losses are means per pair; None if unknown.

    epochs             a fraction if the run ended early
    final_loss         the loss that progress reported last: of the last twentieth of the run, or
                       exact (`Strategy.loss`)
    interrupted_by     the KeyboardInterrupt that ended the run early
    state              live: take a snapshot before the tables change. Of label trees it is empty of
                       weights once the classifier has them (`LabelwiseTraining.release`)
    highest_loss       over the worst twentieth
    lowered_rates      the learning rate after each rollback
    divergence         the error that ended the run early, at its last good state
    initial_loss       before training
    baseline_loss      of a model that predicts the frequencies of classes
    facts_of_strategy  for the model's record
    curve              mean loss of each twentieth of the run
    """

    tally: Tally
    seconds: float
    epochs: float
    final_loss: float | None
    interrupted_by: BaseException | None = None
    state: TrainState = field(default_factory=TrainState)
    highest_loss: float | None = None
    lowered_rates: list[float] = field(default_factory=list)
    divergence: DivergedError | None = None
    initial_loss: float | None = None
    baseline_loss: float | None = None
    facts_of_strategy: Record = field(default_factory=dict)
    curve: list[dict[str, float]] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Whether the run trained to its end."""
        return self.interrupted_by is None and self.divergence is None

    def facts(self, loss_unit: str = "") -> Record:
        """Facts for the model's record: losses in this unit, epochs and seconds, rates after
        rollbacks, and those of the strategy.
        """
        always = {
            "final_loss": self.final_loss,
            "loss_unit": loss_unit,
            "highest_loss": self.highest_loss,
            "epochs": round(self.epochs, 4),
            "seconds": round(self.seconds, 3),
            "interrupted": self.interrupted_by is not None,
            **self.facts_of_strategy,
        }
        known = {
            "initial_loss": self.initial_loss,
            "baseline_loss": self.baseline_loss,
            "learning_rate_lowered": self.lowered_rates or None,
            "loss_curve": self.curve or None,
        }
        return always | {name: value for name, value in known.items() if value is not None}

    def raise_reason(self) -> None:
        """Raise the error or interrupt that ended the run early, if any."""
        reason = self.interrupted_by or self.divergence
        if reason is not None:
            raise reason

    def check_trained(self, why: EmbedxError | None = None) -> None:
        """If nothing was trained, raise the error that ended the run early, else `why`; by default
        that there was no time.
        """
        if self.final_loss is not None:
            return
        self.raise_reason()
        if why is not None:
            raise why
        problem = "was over before anything was trained"
        raise InapplicableError("time_budget", None, problem, "give more time")

    def without_state(self) -> "Outcome":
        """The outcome without its state, which refers to all memory of the run, and cannot be
        pickled.
        """
        return replace(self, state=TrainState())


class LossCurve:
    """The loss curve of a run, in parts of a twentieth.

    tallies  of the parts
    ends     epochs and seconds of training at the end of each part
    """

    PARTS = 20

    def __init__(self) -> None:
        self.tallies = [Tally()] * self.PARTS
        self.ends = [(0.0, 0.0)] * self.PARTS

    def state(self) -> TrainState:
        """The curve so far, for a checkpoint."""
        state = TrainState()
        for name in ("tallies", "ends"):
            state.add_attribute(f"trainer.curve.{name}", self, name)
        return state

    def add(self, share: float, tally: Tally, epochs: float, seconds: float) -> None:
        """Add a chunk that was started at this share of the run; it is 1 where the time ended
        meanwhile.
        """
        part = min(int(self.PARTS * share), self.PARTS - 1)
        self.tallies[part] += tally
        self.ends[part] = (round(epochs, 4), round(seconds, 3))

    @property
    def last(self) -> float | None:
        """The mean loss of the current twentieth of the run, or of the last one that had pairs."""
        points = self.points()
        return points[-1]["loss"] if points else None

    def points(self) -> list[dict[str, float]]:
        """Epoch, seconds and mean loss of each part that had pairs."""
        return [
            {"epoch": epoch, "seconds": seconds, "loss": tally.loss / tally.pairs}
            for tally, (epoch, seconds) in zip(self.tallies, self.ends, strict=True)
            if tally.pairs
        ]
