"""The candidates are the rows with the highest scores, found by an index (`embedx.search`), and a
few drawn rows that stand for all others.

A row that is found is certain and has weight 1; a row that is not found and is drawn n times has
the weight n / E[n]. The draws do not depend on what is found. So any sum over candidates with these
weights is an unbiased estimate of the sum over all rows, whatever the search finds: its recall
decides the variance alone (Mussmann & Ermon 2016, "Learning and inference via maximum inner product
search"). Objectives that are made for a search say themselves what counts of the rows not found.
"""

import math

from embedx.samplers.contract import Sampler
from embedx.search.spec import SearchSpec
from embedx.settings import Settings, param

# At least this many rows are scored and kept in a block: a hundredth of few rows is too little to
# learn from.
MIN_ROWS = 100


class IndexSettings(Settings):
    """Settings of the search."""

    panel = "Sampler"

    scored_fraction: float = param(
        0.01,
        "fraction of all rows that is scored in each block for each example; at least 100 rows",
        above=0.0,
        at_most=1.0,
        has_option=False,
    )
    clusters: int | None = param(
        None,
        "clusters of the index; by default the square root of the number of rows",
        at_least=1,
        has_option=False,
    )
    candidate_fraction: float = param(
        0.1,
        "fraction of the rows scored in a block that may become candidates; at least 100 rows, for"
        " words at least `found`",
        above=0.0,
        at_most=1.0,
        has_option=False,
    )
    min_score: float = param(
        0.0,
        "leave out rows whose score in a block is no larger than this in absolute value",
        at_least=0.0,
        has_option=False,
    )
    min_coefficient: float = param(
        1e-3,
        "leave out rows whose coefficient is no larger than this in absolute value",
        above=0.0,
        at_most=1.0,
        has_option=False,
    )
    warm_up: float = param(
        0.02,
        "epochs with drawn negatives (for words `draws`, for labels --negatives) before the search"
        " begins",
        at_least=0.0,
        has_option=False,
    )
    found: int | None = param(
        None,
        "highest-scoring rows that are kept for each word; by default 2 with drawn rows, 8 without",
        at_least=1,
        at_most=256,
        has_option=False,
    )
    refresh: int = param(
        256,
        "refresh the rows found for a word every N of its occurrences as an input",
        at_least=1,
        has_option=False,
    )

    def spec(self, n_classes: int) -> SearchSpec:
        """The search in one block of columns, for a loss whose coefficients are those of a
        softmax: tau at -log tau below the log of the sum.
        """
        n_scored = min(max(MIN_ROWS, math.ceil(self.scored_fraction * n_classes)), n_classes)
        return SearchSpec(
            blocks=1,
            clusters=min(self.clusters or round(math.sqrt(n_classes)), n_classes),
            n_scored=n_scored,
            max_candidates=max(MIN_ROWS, math.ceil(self.candidate_fraction * n_scored)),
            threshold=float(self.min_score),
            min_coefficient=float(self.min_coefficient),
            max_gap=-math.log(self.min_coefficient),
            from_logsumexp=True,
            message_iterations=0,
        )


def index_settings(*groups: Settings) -> IndexSettings | None:
    """Those of the search among the settings of an objective and of its sampler, in this order."""
    return next((group for group in groups if isinstance(group, IndexSettings)), None)


class Search(Sampler):
    name = "search"
    meaning = "the rows with the highest scores, found by an index, and drawn ones for the others"
    candidates = "retrieved"
    Settings = IndexSettings
    word_settings = ("found", "refresh")
    needs_dense_inputs = True
