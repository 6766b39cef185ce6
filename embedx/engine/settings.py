"""Settings of every training task; a task adds its own, and may change the default or the help of
one of these.
"""

from embedx.errors import InapplicableError, Setting, SettingError
from embedx.samplers import SAMPLERS
from embedx.settings import MAX_THREADS, Options, Settings, param, seconds

MAX_RATE = 1e38  # about the largest float32
DETERMINISTIC_PARTS = 4  # parts of a sum with --deterministic, whatever the number of threads


def usable_sampler(name: str) -> str:
    """The name. Raises `SettingError` for a sampler of another package that cannot be imported."""
    SAMPLERS.check_usable(name)
    return name


class TrainingSettings(Settings):
    """Settings of training, whatever the task and the objective. None: chosen from the objective
    and the data.
    """

    epochs: int = param(5, "passes over the training data", at_least=1)
    learning_rate: float | None = param(
        None,
        "learning rate at the start; by default the objective's own",
        above=0.0,
        at_most=MAX_RATE,
    )
    sampler: str | None = param(
        None,
        "how the candidates of an example are chosen; "
        + ", ".join(f"`{name}`: {sampler.meaning}" for name, sampler in SAMPLERS.imported().items())
        + "; by default the objective's first",
        choices=SAMPLERS.names(),
        parse=usable_sampler,
    )
    threads: int | None = param(
        None, "threads; by default one per usable core", at_least=1, at_most=MAX_THREADS
    )
    deterministic: bool = param(
        False,
        "train the same model, to the last bit, with any number of threads; word vectors and"
        " objectives that draw candidates are then trained by one thread, and processors must be of"
        " one kind",
    )
    time_budget: float | None = param(
        None,
        "train for this long instead of --epochs: 90s, 10m, 2h; the learning rate schedule ends at"
        " the deadline",
        above=0.0,
        parse=seconds,
        metavar="duration",
    )
    seed: int = param(1, "random seed", at_least=0, at_most=2**64 - 1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.deterministic and self.time_budget is not None:
            raise SettingError(
                "deterministic",
                True,
                (Setting("time_budget"), " stops at a different step each time"),
                ("give ", Setting("epochs"), " instead"),
            )


def check_stopping(options: Options) -> None:
    """Raise `EmbedxError` if two of the given options set the end of training."""
    if "epochs" in options and "time_budget" in options:
        problem = ("and ", Setting("time_budget"), " both say when to stop")
        raise InapplicableError("epochs", None, problem, "give one of them")


def check_sampler(sampler: str, objective_name: str, taken: tuple[str, ...]) -> None:
    """Raise `EmbedxError` if `sampler` is not among `taken`, the samplers of the objective."""
    if sampler not in taken:
        objective = Setting("objective", objective_name)
        problem = ("does not apply to ", objective, f", which takes {', '.join(taken)}")
        raise InapplicableError("sampler", sampler, problem)
