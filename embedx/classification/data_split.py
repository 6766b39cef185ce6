"""The split of the rows of a run: those to train on, to validate on, and to calibrate on."""

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
class DataSplit:
    """The rows to train on, and the held-out ones.

    validation   scored after each epoch; None if there are none
    calibration  rows to calibrate on: `validation`, or rows held out for that alone; None if there
                 are none
    """

    training: Labeled
    validation: Labeled | None = None
    calibration: Labeled | None = None

    @property
    def holds_out_for_calibration(self) -> bool:
        """Whether rows are held out for calibration alone."""
        return self.calibration is not self.validation


def split_data(
    data: Labeled, settings: ClassifySettings, progress: Progress, *, allows_refit: bool
) -> DataSplit:
    """Split rows as the settings say, and balance the weights of those to train on.

    allows_refit  whether training may be repeated on all rows; it is where rows are held out to
                  calibrate on
    """
    split = DataSplit(data)
    n = n_held_out(len(data), settings.calibration)
    if settings.validation is not None:
        split = with_validation(data, settings.validation, settings, progress)
    elif n > 0:
        again = "; then training is repeated on all rows" if allows_refit else ""
        progress.note(
            f"{n:,} of {len(data):,} rows are held out from training to calibrate"
            f" probabilities{again}"
        )
        training, calibration = hold_out(data, n, settings.seed)
        split = DataSplit(training, None, calibration)
    if settings.class_weight == BALANCED:
        training = balanced_rows(split.training, settings.labels)
        split = dataclasses.replace(split, training=training)
    return split


def with_validation(
    data: Labeled, validation: str, settings: ClassifySettings, progress: Progress
) -> DataSplit:
    """The rows, and those of a file, or a share of them, to validate on."""
    share = share_of_rows(validation)
    if share is None:
        others = read(
            validation,
            settings.validation_labels,
            schema=data.schema,
            progress=progress,
            threads=settings.threads,
        )
        return DataSplit(data, others, others)
    training, others = hold_out(data, max(1, round(share * len(data))), settings.seed)
    return DataSplit(training, others, others)


def hold_out(data: Labeled, n: int, seed: int) -> tuple[Labeled, Labeled]:
    """The rows to train on, and n others, chosen at random."""
    order = np.random.default_rng([seed, HELD_OUT_ROWS]).permutation(len(data))
    return data.rows(np.sort(order[n:])), data.rows(np.sort(order[:n]))
