"""All output rows are candidates, as in an exact softmax."""

from embedx.kernels import kernel
from embedx.samplers.contract import Sampler


@kernel
def sample_first(data, input_row, stream, first, n, n_excluded, workspace):
    """Draw each of the first n rows once; see `contract`. The engine asks for all rows or none."""
    for row in range(n):
        workspace.rows[row] = row
    return n


class All(Sampler):
    name = "all"
    meaning = "all rows"
    candidates = "all"
    sample = staticmethod(sample_first)
