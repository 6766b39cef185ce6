"""The size of a classifier that is trained, in memory and on disk, and remedies for messages."""

from embedx.classification.settings import DENSE, ClassifySettings
from embedx.errors import Setting, Text
from embedx.labeled.data import Labeled
from embedx.optimizers.lbfgs import Lbfgs
from embedx.runtime.memory import MemoryPlan, check_declared
from embedx.training.life import DiskNeeds, Size

# Bytes for its count and for the distribution that noise is drawn from, while that is made.
BYTES_PER_LABEL = 80
# Bytes for its count, its scale and one weight.
BYTES_PER_FEATURE = 24


def check_size(data: Labeled) -> None:
    """Raise `EmbedxError` if labels and features are more than memory holds.

    Ids and headers of files may say anything.
    """
    check_declared(
        "the training data",
        BYTES_PER_LABEL * data.n_labels + BYTES_PER_FEATURE * data.n_features,
        f"{data.n_labels:,} labels and {data.n_features:,} features",
        "ids are numbered from 0 or 1, so check the largest ones and the header",
    )


def size_of_weights(settings: ClassifySettings, data: Labeled, n_outputs: int) -> Size:
    """The size of the weights, of `n_outputs` outputs."""
    if settings.weights != DENSE:
        return Size(
            f"sparse weights of {n_outputs:,} outputs on {data.n_features:,} features",
            "drop rare labels and features",
        )
    n_columns = (settings.hidden or data.n_features) + 1
    remedy: Text = (
        Setting("optimizer", "sgd"),
        " needs the least; or drop rare labels and features",
    )
    if data.is_sparse and not settings.hidden:
        remedy = ("add ", Setting("hidden", 100), "; ", remedy)
    optimizer = Setting("optimizer", settings.optimizer)
    return Size((f"{n_outputs:,} outputs × {n_columns:,} weights with ", optimizer), remedy)


def disk_needs(settings: ClassifySettings, plan: MemoryPlan) -> DiskNeeds | None:
    """Bytes of the weights, and of the state in a checkpoint; None where weights are sparse."""
    weights = plan.needs.get("weights")
    if not weights:
        return None
    if settings.optimizer == Lbfgs.name:
        return DiskNeeds(weights, 0)
    state = sum(plan.needs[name] for name in ("weights", "optimizer", "objective"))
    return DiskNeeds(weights + plan.needs.get("variances", 0.0) / 2, state)
