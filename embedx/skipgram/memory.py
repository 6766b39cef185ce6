"""The memory and disk that a run on word vectors takes."""

from embedx.skipgram.run import Task
from embedx.skipgram.tables import SMALLER
from embedx.training.memory import MemoryPlan, allocating, n_bytes, plan_memory

BYTES_PER_LINE = 12  # of a word and its count in a model's folder, about
COUNT_BYTES = 8


def memory_plan(task: Task) -> tuple[MemoryPlan, str]:
    """What the run needs, before its tables are written to, and what to do where that does not fit.

    Raises `EmbedxError` where even the workspaces of its threads cannot be allocated.
    """
    tables, settings = task.tables, task.settings
    with allocating(f"{size(task)} with --threads {settings.threads} and --window {settings.window}", "lower them, or --dim"):
        of_training = task.strategy().memory()
    state = {
        "vectors": (tables.inputs.rows, tables.outputs.rows),
        "optimizer": (tables.inputs[1:], tables.outputs[1:]),
        "objective": (tables.state, tables.n_updates),
    }
    plan = plan_memory({**state, **of_training, "subwords": (tables.parts, task.buckets)}, state)
    workspaces = next(iter(of_training.values()))
    return plan, "lower --threads or --window" if 2 * n_bytes(workspaces) > sum(plan.needs.values()) else SMALLER


def on_disk(task: Task) -> tuple[int, int]:
    """Bytes of the model's folder, and of the run's state in a checkpoint."""
    tables, n_words, dim = task.tables, len(task.words), task.settings.dim
    n_rows = len(tables.outputs.rows)
    numbers = (n_words + n_rows) * dim + (n_rows if task.settings.bias != "none" else 0)
    if task.buckets is not None:  # the words' own parts beside their vectors, and the buckets
        numbers += len(tables.inputs.rows) * dim + len(task.buckets)
    of_words = BYTES_PER_LINE + (COUNT_BYTES if task.heldout else 0)
    return 4 * numbers + of_words * n_words, n_bytes((tables.inputs, tables.outputs, tables.state, tables.n_updates))


def size(task: Task) -> str:
    """The size of the tables, in words."""
    of_ngrams = "" if task.buckets is None else f" and {len(task.buckets):,} buckets"
    return f"{len(task.words):,} words{of_ngrams} × {task.settings.dim} numbers"
