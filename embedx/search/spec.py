"""How rows are to be found: the numbers that an objective decides and the index obeys."""

from typing import NamedTuple


class Search(NamedTuple):
    """How rows are found for the sampler "search": in blocks of columns, each by itself (`embedx.search`).

    A row is looked at in a block if it lies in one of the clusters that promise h the most. It competes if in some block its
    score there, times the number of blocks, lies within `reach` of the best score, or of the log of the sum of all their
    exponentials: a row further below has a coefficient of at most `tau`. Of those in a block only the best `kept` compete.
    """

    blocks: int
    clusters: int  # of the rows of each block
    looked_at: int  # rows in each block, at least, unless `from_sum` tells before that the rest weighs nothing
    kept: int  # of them, at most; message passing between blocks keeps all
    threshold: float  # rows whose score in the block is no larger than this in absolute value are passed over
    tau: float
    reach: float
    from_sum: bool
    steps: int  # of message passing between the blocks; 0 takes the scores of what was found exactly instead

    def of(self, columns: int) -> "Search":
        """The same in a table of so many columns, which cannot be in more blocks."""
        return self._replace(blocks=min(self.blocks, columns))
