"""Refitting: training is repeated on all rows, after some were held out to calibrate on.

The classifier of all rows keeps what the first one learned from held-out rows.
"""

import dataclasses
from collections.abc import Callable

from embedx.classification import neighbours
from embedx.classification.classifier import Classifier
from embedx.classification.held_out import copy_held_out
from embedx.classification.settings import NONE, ClassifySettings
from embedx.classification.trained_classifier import TrainedClassifier
from embedx.errors import DivergedError
from embedx.labeled.data import Labeled
from embedx.labeled.label_rules import chosen_labels


def refit_settings(
    settings: ClassifySettings, given: ClassifySettings, first: Classifier
) -> ClassifySettings:
    """The settings by which training is repeated.

    settings  resolved, of the run that trained `first`
    given     those that the user gave: a default of l2 depends on the number of rows
    """
    return dataclasses.replace(
        settings,
        calibration=0.0,
        neighbours=NONE,
        l2=given.l2,
        prior_variance=first.facts.get("prior_variance"),
    )


def refitted(
    trained: TrainedClassifier, data: Labeled, train: Callable[[], TrainedClassifier]
) -> TrainedClassifier:
    """The classifier of all rows; `trained` itself if this training is interrupted or diverges.

    data   all rows
    train  trains on them
    """
    try:
        on_all_rows = train()
        end: BaseException | None = (
            on_all_rows.outcome.interrupted_by or on_all_rows.outcome.divergence
        )
    except (KeyboardInterrupt, DivergedError) as error:
        end = error
    if end is not None:
        interrupted_by = end if isinstance(end, KeyboardInterrupt) else None
        outcome = dataclasses.replace(trained.outcome, interrupted_by=interrupted_by)
        return dataclasses.replace(trained, outcome=outcome)
    _complete(on_all_rows.classifier, trained.classifier, data)
    return on_all_rows


def _complete(classifier: Classifier, first: Classifier, data: Labeled) -> None:
    """Give the classifier of all rows what the first one learned from held-out rows."""
    copy_held_out(first, classifier)
    if first.has_neighbours:
        labels = chosen_labels(data.labels, first.settings["labels"])
        classifier.arrays |= neighbours.arrays_of(classifier.prepared(data.features), labels)
    classifier.settings = first.settings | {"l2": classifier.settings["l2"]}
    classifier.facts["chosen"] = first.facts["chosen"]
    seconds = first.facts["seconds"] + classifier.facts["seconds"]
    classifier.facts["seconds"] = round(seconds, 3)
    classifier.parameters_changed()
