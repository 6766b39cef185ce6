"""The memory and disk that a run on word vectors takes, reckoned before its tables are written to."""

from embedx.errors import EmbedxError
from embedx.evaluation import heldout
from embedx.skipgram.run import Task
from embedx.skipgram.tables import SMALLER
from embedx.training.checkpoint import Checkpoints
from embedx.training.memory import Plan, n_bytes, plan_memory

OF_TABLES = ("vectors", "optimiser", "objective")  # what is copied, to go back to
LATER = ("saving", "testing")  # what comes when training is over
BYTES_PER_LINE = 12  # of a word and its count in a model's folder, about
COUNT_BYTES = 8
BYTES_PER_WORD = 150  # while a vocabulary is checked and written


def memory_plan(task: Task, checkpoints: Checkpoints | None = None) -> tuple[Plan, str]:
    """What the run takes at the most, to be asked for before its tables are written to, and what to do where that is short.

    Raises `EmbedxError` where threads cannot have theirs.
    """
    needs = _needs(task)
    later = {name: needs.pop(name) for name in LATER if name != "testing" or not task.tells_heldout()}
    workers = next(value for name, value in needs.items() if name not in OF_TABLES)
    remedy = "lower --threads or --window" if 2 * workers > sum(needs.values()) else SMALLER
    copy = sum(needs[name] for name in OF_TABLES)
    written = copy if checkpoints is not None and checkpoints.are_asked_for else 0.0
    plan = plan_memory(needs, copy, written=written, later=later, corpus=(task.corpus.folder, task.corpus.bytes))
    return plan, remedy


def _needs(task: Task) -> dict[str, float]:
    """Bytes that training, testing and saving will take, by purpose. Raises `EmbedxError` where threads cannot have it."""
    tables, n_words, settings = task.tables, len(task.words), task.settings
    try:
        of_training = task.strategy().memory()
    except MemoryError as error:
        threads = f"{settings.threads} threads with --window {settings.window}"
        raise EmbedxError(f"{size(task)} and {threads} need more memory than there is; lower them, or --dim") from error
    return {
        "vectors": n_bytes((tables.inputs.rows, tables.outputs.rows)),
        "optimiser": n_bytes((tables.inputs[1:], tables.outputs[1:])),
        "objective": n_bytes((tables.state, tables.n_updates)),
        **of_training,
        "subwords": n_bytes((tables.parts, task.buckets)),
        "saving": BYTES_PER_WORD * n_words + (4 * n_words * tables.inputs.rows.shape[1] if settings.subwords else 0),
        "testing": heldout.memory(n_words, _n_heldout_pairs(task)) if task.heldout else 0,
    }


def _n_heldout_pairs(task: Task) -> float:
    """How many pairs the held-out text will bring, about."""
    assert task.heldout is not None
    counts = task.heldout.counts  # with those of the borders, where nothing is scored
    kept = counts @ task.words.keep_probability(task.vocabulary.sample) / max(counts.sum(), 1)
    return float(kept) * task.heldout.n_words * (task.settings.window + 1)


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
    """How large the tables are, in words."""
    of_ngrams = "" if task.buckets is None else f" and {len(task.buckets):,} buckets"
    return f"{len(task.words):,} words{of_ngrams} × {task.settings.dim} numbers"
