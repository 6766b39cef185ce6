"""The rows of a run, divided: those to train on, to validate on, and to calibrate on."""

import dataclasses
from dataclasses import dataclass

import numpy as np

from embedx.classification.calibration import n_held_out
from embedx.classification.row_weights import BALANCED, balanced_rows
from embedx.classification.settings import ClassifySettings, share_of_rows
from embedx.labeled.data import Labeled
from embedx.labeled.read import read
from embedx.runtime.progress import Progress
from embedx.runtime.random_streams import HELD_OUT_ROWS


@dataclass(frozen=True)
class Division:
    """The rows to train on, and the held-out ones.

    validation  scored after each epoch; None if there are none
    unseen      rows for calibration: `validation`, or rows held out for that; None if there are
                none
    """

    training: Labeled
    validation: Labeled | None = None
    unseen: Labeled | None = None

    @property
    def holds_out_for_calibration(self) -> bool:
        """Whether rows are held out for calibration alone."""
        return self.unseen is not self.validation


def divide(
    data: Labeled, settings: ClassifySettings, progress: Progress, *, is_refitted: bool
) -> Division:
    """Divide rows as the settings say, and balance the weights of those to train on.

    is_refitted  whether training is repeated on all rows, which is then reported
    """
    division = Division(data)
    n = n_held_out(len(data), settings.calibration)
    if settings.validation is not None:
        division = with_validation(data, settings.validation, settings, progress)
    elif n > 0:
        again = "; then training is repeated on all rows" if is_refitted else ""
        progress.note(
            f"{n:,} of {len(data):,} rows are held out from training to calibrate"
            f" probabilities{again}"
        )
        training, unseen = hold_out(data, n, settings.seed)
        division = Division(training, None, unseen)
    if settings.class_weight == BALANCED:
        training = balanced_rows(division.training, settings.labels)
        division = dataclasses.replace(division, training=training)
    return division


def with_validation(
    data: Labeled, validation: str, settings: ClassifySettings, progress: Progress
) -> Division:
    """The rows, and those of a file, or a share of them, to validate on."""
    share = share_of_rows(validation)
    if share is None:
        others = read(
            validation, settings.validation_labels, progress=progress, trained=data.schema
        )
        return Division(data, others, others)
    training, others = hold_out(data, max(1, round(share * len(data))), settings.seed)
    return Division(training, others, others)


def hold_out(data: Labeled, n: int, seed: int) -> tuple[Labeled, Labeled]:
    """The rows to train on, and n others, chosen at random."""
    order = np.random.default_rng([seed, HELD_OUT_ROWS]).permutation(len(data))
    return data.rows(np.sort(order[n:])), data.rows(np.sort(order[:n]))
