"""What objectives have in common whose rows are found by search: a loss among what was found, and how to find it."""

import dataclasses
import math
from typing import Any

import numpy as np

from embedx.objectives import margin, sampled_softmax
from embedx.objectives.contract import Objective
from embedx.search.spec import Search
from embedx.settings import Settings, param

FEWEST = 100  # rows to look at and to keep: of few rows a hundredth is too little to learn from, and more costs little


@dataclasses.dataclass(frozen=True)
class SearchSettings(Settings):
    """How rows are found, and the loss among them."""

    loss: str = param("margin", "the loss among the rows that are found", choices=("margin", "softmax"))
    smoothing: float = param(1.0, "how far below the margin rows still count, for the loss `margin`", above=0.0)
    query: float = param(
        0.01, "the share of all rows that is looked at for each example; a hundred at least", above=0.0, at_most=1.0
    )
    clusters: int | None = param(
        None, "clusters that the rows are kept in; by default the square root of their number", at_least=1
    )
    keep: float = param(
        0.1, "the share of what is looked at in a block that may compete; a hundred at least", above=0.0, at_most=1.0
    )
    threshold: float = param(0.0, "pass over rows whose score is no larger than this in absolute value", at_least=0.0)
    tau: float = param(1e-3, "rows whose coefficient is no larger than this do not compete", above=0.0, at_most=1.0)
    negatives: int = param(100, "classes drawn as noise for each positive before the search begins", at_least=1)
    warm_up: float = param(0.02, "passes over the data before the search begins", at_least=0.0)


class Searched(Objective):
    """An objective whose rows are found; a subclass says in how many blocks."""

    positives = "joint"
    pairs_as_set = True
    candidates = ("retrieved", "drawn", "all")
    noise = "uniform"
    stable = True
    word_defaults = {"loss": "softmax", "keep": 1.0}  # the probability of words lies on many rows
    settings: SearchSettings

    @property
    def is_margin(self) -> bool:
        return self.settings.loss == "margin"

    @property
    def coefficients(self) -> Any:
        return margin.coefficients if self.is_margin else sampled_softmax.coefficients

    @property
    def calibrated(self) -> bool:
        return not self.is_margin

    def constants(self, n_draws: int, n_classes: int) -> np.ndarray:
        complementary = 0  # the softmax over what was found, each row with its weight
        return np.array([self.settings.smoothing if self.is_margin else complementary], dtype=np.float32)

    def searched(self, n_classes: int, blocks: int, steps: int, slack: float) -> Search:
        """The search in so many blocks, with so many steps of message passing; `slack` adds to how far below the best score of
        a block rows still compete.
        """
        settings = self.settings
        looked_at = min(max(FEWEST, math.ceil(settings.query * n_classes)), n_classes)
        return Search(
            blocks=blocks,
            clusters=min(settings.clusters or round(math.sqrt(n_classes)), n_classes),
            looked_at=looked_at,
            kept=max(FEWEST, math.ceil(settings.keep * looked_at)),
            threshold=float(settings.threshold),
            tau=float(settings.tau),
            # The projection on the simplex leaves out what lies smoothing below the best, a softmax what is tau times likelier.
            reach=slack + float(settings.smoothing if self.is_margin else -math.log(settings.tau)),
            from_sum=not self.is_margin,
            steps=steps,
        )
