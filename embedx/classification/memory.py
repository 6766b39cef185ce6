"""Whether a classifier fits in memory: its arrays are allocated, and their sizes compared with what is free."""

from typing import Any

from embedx import optimizers
from embedx.classification.settings import ClassifySettings
from embedx.classification.strategies import Classification
from embedx.classification.tree_training import TreeTraining
from embedx.errors import EmbedxError
from embedx.objectives.contract import Objective
from embedx.storage.disk import amount
from embedx.training.memory import MemoryPlan, available_memory, plan_memory

BYTES_PER_LABEL = 80  # of counts, of what noise is drawn by, and while that is made


def check_labels(n_labels: int) -> None:
    """Raise `EmbedxError` if counts of the labels, and what draws by them, will not fit: ids may be anything."""
    need, have = BYTES_PER_LABEL * n_labels, available_memory()
    if need > have:
        raise EmbedxError(
            f"{n_labels:,} labels need {amount(need)} to be counted, more than the {amount(have)} there are; ids are numbered "
            "from 0, so see whether the largest is one"
        )


def size(objective: Objective, settings: ClassifySettings, n_labels: int, n_features: int) -> str:
    """The size of the weights, in words."""
    n_rows = objective.n_rows(n_labels)
    if settings.weights != "dense":
        return f"sparse weights of {n_rows:,} rows on {n_features:,} features"
    return f"{n_rows:,} rows × {(settings.hidden or n_features) + 1:,} weights with --optimizer {settings.optimizer}"


def remedy(settings: ClassifySettings, is_sparse: bool) -> str:
    """What to do where memory is short."""
    if settings.weights != "dense":
        return "drop rare labels and features"
    hidden = "add --hidden 100; " if is_sparse and not settings.hidden else ""
    return f"{hidden}--optimizer sgd needs the least; or drop rare labels and features"


def memory_plan(strategy: Classification | TreeTraining, keeps_best: bool) -> MemoryPlan:
    """What a run with this strategy needs, before it is initialised; it `keeps_best` weights beside the present ones."""
    if isinstance(strategy, TreeTraining):
        return plan_memory({"threads": strategy.workers})
    weights = strategy.outputs.rows, strategy.hidden.rows
    state = {
        "weights": weights,
        "optimizer": (strategy.outputs[1:], strategy.hidden[1:]),
        "objective": (strategy.local_state, strategy.n_updates),
    }
    best: Any = weights if keeps_best else ()
    return plan_memory({**state, "threads": strategy.workspaces(), "best weights": best}, state)


def memory_of_lbfgs(n_rows: int, dim: int) -> MemoryPlan:
    """What a run with L-BFGS needs: scipy allocates its own arrays."""
    weights = 4.0 * n_rows * dim
    needs = {"weights": weights, "optimizer": (optimizers.OPTIMIZERS["lbfgs"].copies - 1) * weights}
    return MemoryPlan(needs, 0.0, available_memory())
