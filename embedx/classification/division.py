"""The rows of a run, divided: those to train on, to validate on, and to calibrate on."""

from dataclasses import dataclass

import numpy as np

from embedx.classification.calibration import n_held_out
from embedx.classification.settings import ClassifySettings, share_of_rows
from embedx.labeled.data import Labeled
from embedx.labeled.read import read
from embedx.runtime.progress import Progress

# The place of these random numbers among those of a seed.
HELD_OUT = 2**32 + 1


@dataclass(frozen=True)
class Division:
    """Rows to train on, and others.

    validation  scored after each epoch, if there are any
    unseen      what probabilities are calibrated on, if there are any: those of `validation`, else
                rows that are held out for that
    """

    training: Labeled
    validation: Labeled | None = None
    unseen: Labeled | None = None

    @property
    def holds_out_for_calibration(self) -> bool:
        """Whether rows are held out that nothing but calibration needs."""
        return self.unseen is not self.validation


def divide(
    data: Labeled, settings: ClassifySettings, progress: Progress, *, is_refitted: bool
) -> Division:
    """Divide rows as the settings say.

    is_refitted  whether training is repeated on all rows, which is then reported
    """
    if settings.validation is not None:
        share = share_of_rows(settings.validation)
        if share is not None:
            training, validation = hold_out(data, max(1, round(share * len(data))), settings.seed)
            return Division(training, validation, validation)
        validation = read(
            settings.validation, settings.validation_labels, progress=progress, like=data.schema
        )
        return Division(data, validation, validation)
    n = n_held_out(len(data), settings.calibration)
    if n == 0:
        return Division(data)
    again = "; then training is repeated on all rows" if is_refitted else ""
    progress.note(
        f"{n:,} of {len(data):,} rows are held out from training to calibrate probabilities{again}"
    )
    training, unseen = hold_out(data, n, settings.seed)
    return Division(training, None, unseen)


def hold_out(data: Labeled, n: int, seed: int) -> tuple[Labeled, Labeled]:
    """The rows to train on, and n others, chosen at random."""
    order = np.random.default_rng([seed, HELD_OUT]).permutation(len(data))
    return data.rows(np.sort(order[n:])), data.rows(np.sort(order[:n]))
