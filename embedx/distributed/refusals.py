"""Settings that the workers of a cluster do not support, refused once settings are resolved."""

from collections.abc import Iterator

from embedx import optimizers, samplers
from embedx.classification.label_weights import is_labelwise, trains_sparse_rows
from embedx.classification.settings import (
    DENSE,
    EUCLIDEAN,
    INNER_PRODUCT,
    SPARSE,
    ClassifySettings,
)
from embedx.distributed.settings import ClusterSettings
from embedx.errors import InapplicableError, Setting, Text
from embedx.objectives.contract import Objective
from embedx.optimizers.lbfgs import Lbfgs


def check_classifier(
    cluster: ClusterSettings, settings: ClassifySettings, objective: Objective
) -> None:
    """Raise `InapplicableError` for a classifier with settings that workers cannot train."""
    if not is_labelwise(settings, objective):
        _check_steps(settings, objective)
    elif cluster.merge_every is not None:
        problem = "has no effect where each label is trained independently"
        raise InapplicableError("merge_every", None, problem, "leave it out")


def _check_steps(settings: ClassifySettings, objective: Objective) -> None:
    """Raise `InapplicableError` for training by steps, or to the optimum, that workers cannot
    do.
    """
    for setting, is_set, reason, remedy in _refusals_of_steps(settings, objective):
        if is_set:
            problem = ("does not apply with ", Setting("cluster"), f": {reason}")
            raise InapplicableError(setting.name, setting.value, problem, remedy)


def _refusals_of_steps(
    settings: ClassifySettings, objective: Objective
) -> Iterator[tuple[Setting, bool, str, Text]]:
    """(unsupported setting, whether it is set, reason, remedy) for training by steps."""
    sampler = samplers.SAMPLERS[str(settings.sampler)]
    optimizer = optimizers.OPTIMIZERS[str(settings.optimizer)]
    per_row_of_all = sampler.candidates == "all" and optimizer.keeps == "per_row"
    yield (
        Setting("optimizer", Lbfgs.name),
        settings.optimizer == Lbfgs.name,
        "it takes the gradient of all data at once",
        "use adagrad",
    )
    yield (
        Setting("sampler", "search"),
        sampler.candidates == "retrieved",
        "its index is on one machine",
        "use another sampler",
    )
    yield (
        Setting("deterministic", True),
        settings.deterministic,
        "workers merge in no fixed order",
        "leave out one of them",
    )
    yield (
        Setting("weights", SPARSE),
        trains_sparse_rows(settings, objective),
        "such rows cannot be merged",
        ("use ", Setting("weights", DENSE)),
    )
    yield (
        Setting("score", EUCLIDEAN),
        settings.score == EUCLIDEAN,
        "merged rows have other lengths",
        ("use ", Setting("score", INNER_PRODUCT)),
    )
    yield (
        Setting("max_norm"),
        settings.max_norm is not None,
        "merged rows may be longer",
        ("use ", Setting("l2")),
    )
    yield (
        Setting("optimizer", optimizer.name),
        per_row_of_all,
        "all labels are candidates",
        "use adagrad",
    )
