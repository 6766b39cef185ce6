"""Settings that the workers of a cluster do not support."""

from collections.abc import Iterable, Iterator

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
from embedx.skipgram.configuration import Configuration

# (unsupported setting, whether it is set, reason, remedy)
Unsupported = tuple[Setting, bool, str, Text]
LEAVE_OUT = "leave out one of them"


def check_word_vectors(config: Configuration) -> None:
    """Raise `InapplicableError` for word vectors with settings that workers cannot train."""
    settings = config.settings
    _check(
        [
            (
                Setting("collapsed", True),
                config.collapsed is not None,
                "the counts of pairs are on one machine",
                LEAVE_OUT,
            ),
            (
                Setting("walks"),
                config.graph is not None,
                "the graph is on one machine",
                LEAVE_OUT,
            ),
            _index(str(settings.sampler), config.retrieves),
            _no_fixed_order(settings.deterministic),
        ]
    )


def check_classifier(
    cluster: ClusterSettings, settings: ClassifySettings, objective: Objective
) -> None:
    """Raise `InapplicableError` for a classifier with settings that workers cannot train; called
    once these are resolved.
    """
    if not is_labelwise(settings, objective):
        _check(_unsupported_in_steps(settings, objective))
    elif cluster.merge_every is not None:
        problem = "has no effect where each label is trained independently"
        raise InapplicableError("merge_every", None, problem, "leave it out")


def _check(settings: Iterable[Unsupported]) -> None:
    """Raise `InapplicableError` for the first unsupported setting that is set."""
    for setting, is_set, reason, remedy in settings:
        if is_set:
            problem = ("does not apply with ", Setting("cluster"), f": {reason}")
            raise InapplicableError(setting.name, setting.value, problem, remedy)


def _index(sampler: str, retrieves: bool) -> Unsupported:
    """A sampler that finds rows by an index."""
    reason = "its index is on one machine"
    return Setting("sampler", sampler), retrieves, reason, "use another sampler"


def _no_fixed_order(deterministic: bool) -> Unsupported:
    reason = "workers merge in no fixed order"
    return Setting("deterministic", True), deterministic, reason, LEAVE_OUT


def _unsupported_in_steps(
    settings: ClassifySettings, objective: Objective
) -> Iterator[Unsupported]:
    """What training by steps, or to the optimum, does not support."""
    sampler = samplers.SAMPLERS[str(settings.sampler)]
    optimizer = optimizers.OPTIMIZERS[str(settings.optimizer)]
    per_row_of_all = sampler.candidates == "all" and optimizer.keeps == "per_row"
    yield (
        Setting("optimizer", Lbfgs.name),
        settings.optimizer == Lbfgs.name,
        "it takes the gradient of all data at once",
        "use adagrad",
    )
    yield _index(str(settings.sampler), sampler.candidates == "retrieved")
    yield _no_fixed_order(settings.deterministic)
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
