"""Parameters of the index and of its queries, as an objective sets them."""

from typing import NamedTuple


class SearchSpec(NamedTuple):
    """How candidates are retrieved for the sampler "search"; see `embedx.search`.

    In each block of columns, inverted lists are probed in order of their estimated scores until
    `n_scored` rows are scored. A row is a candidate if, in some block, its score times the number
    of blocks is at most `max_gap` below the best one, or below the log-sum-exp of all scores
    (`from_logsumexp`): rows further below have negligible coefficients.
    """

    blocks: int  # number of blocks of columns
    clusters: int  # in each block
    # Minimum number of rows scored in each block; `from_logsumexp` may end a search earlier.
    n_scored: int
    max_candidates: int  # in each block; message passing has no such limit
    # A block leaves out rows whose score is at most this in absolute value.
    threshold: float
    min_coefficient: float  # coefficients up to this absolute value are negligible
    max_gap: float
    from_logsumexp: bool
    # Iterations of message passing; 0: the candidates are rescored exactly instead.
    message_iterations: int

    def for_columns(self, columns: int) -> "SearchSpec":
        """The same search with at most `columns` blocks, one per column of the table."""
        return self._replace(blocks=min(self.blocks, columns))
