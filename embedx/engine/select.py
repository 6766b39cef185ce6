"""Select: label, sample_count and log_expected_count of each kind of candidate.

    candidate k of example e             label           sample_count          log_expected_count
    negative, drawn `count` times        0               count · draw_weight   log E[count]
    negative, present with certainty     0               draw_weight           0
    positive                             weight, pairs   as a negative, if     as a negative
                                                         the objective keeps
                                                         accidental hits;
                                                         else 0
    node on the paths to the positives   bits that are 1 bits that are 0       0
    padding, no candidate                0               0                     any

A negative is present with certainty if all rows are candidates, if an index retrieved it, or if it
is a centre of a block of text with FORM_MERGED (`blocks`). The draw weight is the number of
positives where these are "summed", else 1 (`embedx.objectives.contract`).
"""

from typing import NamedTuple

import numpy as np
from numpy import ndarray

from embedx.kernels import ONE, ZERO, kernel_part

SINGLE, JOINT, SUMMED = 0, 1, 2
POSITIVES = {"single": SINGLE, "joint": JOINT, "summed": SUMMED}  # of `Objective.positives`


@kernel_part
def draw_weight(positives, n_positives):
    """How often one draw counts as a negative of the example."""
    return np.float32(n_positives) if positives == SUMMED else ONE


@kernel_part
def set_negative(batch, e, k, count):
    """Make candidate k of example e a negative that counts `count` times; the caller writes its
    log_expected_count.
    """
    batch.label[e, k] = 0
    batch.sample_count[e, k] = count


@kernel_part
def set_positive(batch, e, k, label, count, keeps_accidental_hits):
    """Make candidate k of example e a positive; as a negative it would count `count` times."""
    batch.label[e, k] = label
    batch.sample_count[e, k] = count if keeps_accidental_hits else ZERO


@kernel_part
def set_node(batch, e, k, n_ones, n_zeros):
    """Make candidate k of example e a node at which the paths to its positives have n_ones bits 1
    and n_zeros bits 0.
    """
    batch.label[e, k] = n_ones
    batch.sample_count[e, k] = n_zeros
    batch.log_expected_count[e, k] = 0


class Entries(NamedTuple):
    """label and sample_count of terms whose candidates are all rows: 0 and `negative`, except for
    the positives.
    """

    example: ndarray  # int64 (n_terms,): the example of a term
    negative: ndarray  # float (n_terms,)
    term: ndarray  # int64 (n_positives,)
    row: ndarray  # int (n_positives,)
    sample_count: ndarray  # float (n_positives,)

    def write(self, label: ndarray, sample_count: ndarray) -> None:
        """Overwrite two matrices, (n_terms, n_rows)."""
        label[:] = 0
        label[self.term, self.row] = 1
        sample_count[:] = self.negative[:, None]
        sample_count[self.term, self.row] = self.sample_count


def entries_among_all_rows(
    n_positives: ndarray, rows: ndarray, positives: int, *, keeps_accidental_hits: bool
) -> Entries:
    """The entries of examples with n_positives, int64 (n,); `rows` are the positives of all, one
    example after another.

    With SINGLE positives each positive has a term, else each example.
    """
    examples = np.arange(len(n_positives))
    example_of_positive = np.repeat(examples, n_positives)
    if positives == SINGLE:
        term = np.arange(len(rows))
        negative = np.ones(len(rows))
        sample_count = negative * keeps_accidental_hits
        return Entries(example_of_positive, negative, term, rows, sample_count)
    count = n_positives if positives == SUMMED else np.minimum(n_positives, 1)
    negative = count.astype(np.float64)
    sample_count = negative[example_of_positive] * keeps_accidental_hits
    return Entries(examples, negative, example_of_positive, rows, sample_count)
