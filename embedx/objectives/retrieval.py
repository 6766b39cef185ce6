"""Objectives whose candidates are retrieved from an index: the loss over these, and the settings of
the search.

For labels, the candidates are the rows found and no others. (In the paper the scores of other rows
are 0, so that its softmax has a term of 1 for each.) For words, a few drawn rows represent all
others (`tail`): the probability of words is spread over so many rows that those not found have most
of it.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from embedx.errors import Setting
from embedx.objectives import complementary_sum, margin
from embedx.objectives.contract import Objective, Traits
from embedx.search.spec import SearchSpec
from embedx.settings import Settings, param

# The sum over draws, weighted to represent all rows not found, is that of `tail`.
LOSS = "margin, or log(sum_found e^z_k) - z_y; words: log(sum_found e^z_k + sum_drawn e^x_k) - z_y"
# Minimum number of rows scored and kept in a block: of a small table, a hundredth is too few to
# learn from.
MIN_ROWS = 100


class IndexSettings(Settings, by_set=True):
    """Settings of the search."""

    scored_fraction: float = param(
        0.01,
        "fraction of all rows that is scored in each block for each example; at least 100 rows",
        above=0.0,
        at_most=1.0,
    )
    clusters: int | None = param(
        None, "clusters of the index; by default the square root of the number of rows", at_least=1
    )
    candidate_fraction: float = param(
        0.1,
        "fraction of the rows scored in a block that may become candidates; at least 100 rows, for"
        " words at least `found`",
        above=0.0,
        at_most=1.0,
    )
    min_score: float = param(
        0.0,
        "leave out rows whose score in a block is no larger than this in absolute value",
        at_least=0.0,
    )
    min_coefficient: float = param(
        1e-3,
        "leave out rows whose coefficient is no larger than this in absolute value",
        above=0.0,
        at_most=1.0,
    )
    negatives: int = param(
        100, "number of negatives drawn for each positive", at_least=1, by_set=False
    )
    warm_up: float = param(
        0.02,
        "epochs with drawn negatives (for words `draws`, for labels --negatives) before the search"
        " begins",
        at_least=0.0,
    )
    found: int | None = param(
        None,
        "highest-scoring rows that are kept for each word; by default 2 with drawn rows, 8 without",
        at_least=1,
        at_most=256,
    )
    refresh: int = param(
        256, "refresh the rows found for a word every N of its occurrences as an input", at_least=1
    )


class SearchSettings(IndexSettings, by_set=True):
    """Settings of the search, and of the loss among the candidates."""

    loss: str = param(
        "margin",
        "loss over the rows found by the search",
        choices=("margin", "softmax"),
        by_set=False,
    )
    smoothing: float = param(1.0, "smoothing parameter mu of the loss `margin`", above=0.0)
    tail: bool = param(
        True,
        "loss `softmax`: drawn rows (`draws`) stand for all that are not found, by an unbiased"
        " estimate of the normaliser; without, the loss is over the rows found only",
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

    def resolved_traits(self) -> Traits:
        return replace(
            self.traits,
            calibrated=not self.is_margin,
            has_tail=self.settings.tail and not self.is_margin,
        )

    @property
    def n_found(self) -> int:
        """The number of rows that are kept for each word."""
        return self.settings.found or (2 if self.traits.has_tail else 8)

    @property
    def loss_scope(self) -> str:
        """The suffix of the unit of the loss of words; "" if its normaliser is over all rows."""
        return "" if self.traits.has_tail else " among the rows found"

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
        n_scored = min(max(MIN_ROWS, math.ceil(settings.scored_fraction * n_classes)), n_classes)
        return SearchSpec(
            blocks=blocks,
            clusters=min(settings.clusters or round(math.sqrt(n_classes)), n_classes),
            n_scored=n_scored,
            max_candidates=max(MIN_ROWS, math.ceil(settings.candidate_fraction * n_scored)),
            threshold=float(settings.min_score),
            min_coefficient=float(settings.min_coefficient),
            # The projection onto the simplex is 0 from `smoothing` below the best score on; a
            # softmax is tau at -log tau below the log-sum-exp.
            max_gap=slack
            + float(settings.smoothing if self.is_margin else -math.log(settings.min_coefficient)),
            from_logsumexp=not self.is_margin,
            message_iterations=message_iterations,
        )
