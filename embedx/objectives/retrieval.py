"""Objectives whose candidates are retrieved from an index: the loss over these, and the settings of
the search.

For labels, the candidates are the rows found and no others. (In the paper the scores of other rows
are 0, so that its softmax has a term of 1 for each.) For words, a few drawn rows represent all
others (`tail`): the probability of words is spread over so many rows that those not found have most
of it.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from embedx.errors import Setting
from embedx.objectives import complementary_sum, margin
from embedx.objectives.contract import Objective, Traits
from embedx.samplers.search import IndexSettings
from embedx.search.spec import SearchSpec
from embedx.settings import param

# The sum over draws, weighted to represent all rows not found, is that of `tail`.
LOSS = "margin, or log(sum_found e^z_k) - z_y; words: log(sum_found e^z_k + sum_drawn e^x_k) - z_y"


class FoundSettings(IndexSettings):
    """Settings of the search, and of the rows drawn before it begins."""

    negatives: int = param(100, "number of negatives drawn for each positive", at_least=1)


class SearchSettings(FoundSettings):
    """Settings of the search, and of the loss among the candidates."""

    loss: str = param(
        "margin", "loss over the rows found by the search", choices=("margin", "softmax")
    )
    smoothing: float = param(
        1.0, "smoothing parameter mu of the loss `margin`", above=0.0, has_option=False
    )
    tail: bool = param(
        True,
        "loss `softmax`: drawn rows (`draws`) stand for all that are not found, by an unbiased"
        " estimate of the normaliser; without, the loss is over the rows found only",
        has_option=False,
    )


class RetrievalObjective(Objective):
    """An objective with retrieved candidates; a subclass sets the number of blocks of columns."""

    positives = "joint"
    traits = Traits(pairs_as_set=True)
    candidates = ("retrieved", "drawn", "all")
    default_sampler = "uniform"
    # The probability of words is spread over many rows: hence a softmax, and a tail
    # (eval/results/defaults.md#what-was-found).
    word_defaults = {"loss": "softmax", "candidate_fraction": 0.01, "block_size": 32, "draws": 128}
    word_settings: tuple[str, ...] = ("found", "refresh", "tail")
    settings: Any

    def without_effect(self) -> dict[str, Setting]:
        if self.is_margin:
            return {"tail": Setting("loss", "softmax")}
        return {"smoothing": Setting("loss", "margin")}

    @property
    def is_margin(self) -> bool:
        return self.settings.loss == "margin"

    def traits_for_settings(self) -> Traits:
        return replace(
            self.traits,
            calibrated=not self.is_margin,
            has_tail=self.settings.tail and not self.is_margin,
        )

    @property
    def coefficients(self) -> Any:
        return margin.coefficients if self.is_margin else complementary_sum.coefficients

    def constants(self, n_draws: int, n_classes: int) -> np.ndarray:
        return np.array([self.settings.smoothing], np.float32)

    def search_spec(
        self, n_classes: int, blocks: int, message_iterations: int, slack: float
    ) -> SearchSpec:
        """The parameters of a search in this number of blocks; `slack` is added to `max_gap`."""
        settings = self.settings
        spec = settings.spec(n_classes)
        max_gap = spec.max_gap
        if self.is_margin:
            # The projection on the simplex is 0 from `smoothing` below the best on.
            max_gap = float(settings.smoothing)
        return spec._replace(
            blocks=blocks,
            max_gap=slack + max_gap,
            from_logsumexp=not self.is_margin,
            message_iterations=message_iterations,
        )
