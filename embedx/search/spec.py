"""Parameters of the index and of its queries, as an objective sets them."""

from typing import NamedTuple


class SearchSpec(NamedTuple):
    """How candidates are retrieved for the sampler "search"; see `embedx.search`.

    In each block of columns, inverted lists are probed in the order of their estimated scores until
    `n_scored` rows are scored. A row is a candidate if in some block its score there, times the
    number of blocks, is at most `max_gap` below the best one, or below the log-sum-exp of all of
    them (`from_logsumexp`): rows further below have negligible coefficients.
    """

    blocks: int  # of columns
    clusters: int  # in each block
    # rows scored in each block, at least; fewer where `from_logsumexp` ends the search early
    n_scored: int
    max_candidates: int  # in each block; message passing has no such limit
    # rows whose score in a block is no larger than this in absolute value are left out there
    threshold: float
    min_coefficient: float  # coefficients up to this in absolute value are negligible
    max_gap: float
    from_logsumexp: bool
    # of message passing between the blocks; 0 rescores the candidates exactly instead
    message_iterations: int

    def for_columns(self, columns: int) -> "SearchSpec":
        """The same for a table of so many columns, which cannot have more blocks."""
        return self._replace(blocks=min(self.blocks, columns))
