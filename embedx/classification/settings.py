"""Settings of classification, and which of them apply."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from embedx import optimizers
from embedx.classification.calibration import MAX_ROWS, MIN_ROWS
from embedx.engine.settings import MAX_RATE, TrainingSettings
from embedx.errors import EmbedxError
from embedx.evaluation.labels import PROPENSITY_A, PROPENSITY_B
from embedx.labeled.rules import LABEL_RULES, SCALINGS
from embedx.objectives.contract import Objective
from embedx.optimizers.contract import LABELS
from embedx.settings import check_used, param
from embedx.training.schedule import SCHEDULES

AUTO, NONE, MAX_NEIGHBOURS = "auto", "none", 1000  # of --neighbours
WEIGHTS = ("dense", "sparse", "tree")  # how those of the output rows are stored
OF_TREE = ("leaf_size", "arity", "beam", "trees")  # settings that apply to a tree alone

# By steps: ROOT_EPOCHS / √(labels of all rows), within these. On 2,250 noisy rows of 23 labels each (`tags` of the page on
# defaults), by 63 epochs at a rate that does not know of several labels and by these, P@1: softmax .151 and .519, ova .299 and
# .556, ns .272 and .545, hs .435 and .536; on Bibtex, 2.4 labels a row, .586 and .593, .602 and .600, .589 and .561; on 15,000
# rows of EURLex-4.3K, 5 labels a row, ar .752 and .796, ove .688 and .711, ns .776 and .754.
ROOT_EPOCHS, MIN_EPOCHS, MAX_EPOCHS = 3000, 5, 100
HIDDEN_RATE = 0.4  # of a rate, with a hidden layer, whose tables both move
# Of a rate, with sparse weights; logistic ova on 4,000 rows of EURLex-4.3K has P@1 .765 at 3, and at 1, with a lower initial
# gradient, .739.
SPARSE_RATE = 3.0
DUAL_EPOCHS = 10  # by dual coordinate descent, which ends by itself
BIAS = "frequency"
INITIAL_GRADIENT = 4.0

# Settings of training by steps.
OF_STEPS = (
    "epochs", "batch_size", "learning_rate", "initial_gradient", "schedule", "decay", "decay_every", "gradient_scale",
    "max_norm",
)  # fmt: skip


def whole_or_all(text: str) -> int:
    """`100` as a number and `all` as 0. Raises `EmbedxError` for anything else."""
    if text != "all" and not text.isdecimal():
        raise EmbedxError(f"--batch-size {text}: write a number or `all`")
    return 0 if text == "all" else int(text)


def number_or_auto(text: str) -> str:
    """A number of neighbours, `auto` or `none`. Raises `EmbedxError` for anything else."""
    if text not in (AUTO, NONE) and not (text.isdecimal() and 0 < int(text) <= MAX_NEIGHBOURS):
        raise EmbedxError(f"--neighbours {text}: write a number from 1 to {MAX_NEIGHBOURS}, {AUTO} or {NONE}")
    return text


@dataclasses.dataclass(frozen=True)
class ClassifySettings(TrainingSettings):
    """How classifiers train, whatever the objective. What is None is decided by the objective and the data."""

    labels: str = param(
        "all",
        "which labels of a row are positives: all, the first in the file, the lowest id, or one drawn at random at each visit",
        choices=LABEL_RULES,
        panel="Data",
    )
    unseen: str = param(
        "keep",
        "test labels that do not occur in training: count as mistakes (`keep`), or are left out (`drop`)",
        choices=("keep", "drop"),
        fine=True,
    )
    scaling: str | None = param(
        None,
        "feature scaling: none, rows to unit L2 norm, columns divided by their maximum, or counts weighted by tf-idf and then "
        "rows to unit L2 norm; by default tf-idf for counts, l2 for other sparse rows that differ much in length, else none",
        choices=SCALINGS,
        panel="Data",
    )
    hidden: int | None = param(
        None,
        "size of a hidden layer, the sum of trained feature embeddings; by default there is none",
        at_least=1,
        panel="Model",
    )
    pretrained: str | None = param(
        None,
        "text: word vectors that the hidden layer starts from, a model folder or a .vec file; --hidden is their size",
        panel="Model",
    )
    weights: str | None = param(
        None,
        "weights of the labels on sparse features: `dense`; `sparse`, for the features of a label's positives alone; `tree`, "
        "the same in a tree over clusters of labels, under a loss that is a sum over labels; by default as suits the size",
        choices=WEIGHTS,
        panel="Model",
    )
    weight_threshold: float = param(
        0.1, "with sparse weights: those of at most this size are dropped in the end", at_least=0.0, fine=True
    )
    leaf_size: int = param(64, "with --weights tree: maximum number of labels per leaf", at_least=1, fine=True)
    arity: int = param(
        2048, "with --weights tree: maximum number of children of a node above the leaves", at_least=2, fine=True
    )
    beam: int = param(10, "with --weights tree: beam width of the search, in nodes of a level", at_least=1, panel="Model")
    trees: int = param(
        1, "with --weights tree: trees whose probabilities are averaged", at_least=1, at_most=1000, panel="Model"
    )
    propensity: float | None = param(
        None,
        "rank labels by probability / propensity^X, for ova with sparse weights or a tree; the propensity is how likely the "
        "data are to name a label that applies (Jain et al. 2016); 0.75 for a high PSP@k, 1 for an estimate of all labels that "
        "apply; by default 0.25 for several labels a row or from 1,000 labels on, if rows are held out for calibration, else 0",
        at_least=0.0, at_most=1.0, panel="Model",
    )  # fmt: skip
    propensity_a: float = param(PROPENSITY_A, "A of the propensities of --propensity and psp@k", at_least=0.0, fine=True)
    propensity_b: float = param(PROPENSITY_B, "B of the propensities of --propensity and psp@k", above=0.0, fine=True)
    bias: str | None = param(
        None,
        "initial value of the biases: zero, or `frequency`, which predicts how often each label occurs; `none` "
        f"trains no biases; by default {BIAS}, for lbfgs and dcd zero",
        choices=("zero", "frequency", "none"),
        panel="Model",
    )
    epochs: int | None = param(  # type: ignore[assignment]  # None in settings as they are given alone
        None,
        f"passes over the training data; by default {ROOT_EPOCHS} / √(labels of all rows), at least "
        f"{MIN_EPOCHS} and at "
        f"most {MAX_EPOCHS}, and for dcd at most {DUAL_EPOCHS}; for lbfgs see --set max-iterations",
        at_least=1,
    )
    batch_size: int | None = param(None, "examples in a step, or `all`; by default 100", at_least=0, parse=whole_or_all)
    optimizer: str | None = param(
        None,
        f"optimiser, by default adagrad, and dcd for sparse weights where it applies: {optimizers.meanings(LABELS)}",
        choices=optimizers.taken_by(LABELS),
    )
    learning_rate: float | None = param(
        None,
        f"learning rate at the start; by default {optimizers.usual_rates(LABELS)}, with --hidden times {HIDDEN_RATE}, "
        "divided by the root mean squared length of the inputs, for sgd by its square, and by the root of the labels of a row",
        above=0.0,
        at_most=MAX_RATE,
    )
    initial_gradient: float = param(
        INITIAL_GRADIENT,
        "initial value of the accumulators of adagrad and rowwise-adagrad, in gradients of one positive; at 0 the first step "
        "of a weight is equally long for tiny and for large gradients",
        at_least=0.0,
        at_most=1e6,
        fine=True,
    )
    schedule: str = param(
        "linear",
        "learning rate schedule: linear to zero, constant, divided by √updates, or divided by 1 + epochs",
        choices=SCHEDULES,
    )
    decay: float = param(
        1.0, "factor by which the learning rate is also multiplied after each epoch", above=0.0, at_most=1.0, fine=True
    )
    decay_every: int | None = param(None, "apply decay after every N updates instead", at_least=1, fine=True)
    gradient_scale: str = param(
        "mean",
        "a step follows the mean gradient of its examples, or that times the size of the data set",
        choices=("mean", "sum"),
        fine=True,
    )
    l2: float | None = param(
        None,
        "L2 regularisation: l2/2 · |W|² is added to the mean loss; biases are not regularised, except by dcd; by default 0, "
        "for dcd the mean squared length of inputs times one over the number of examples",
        at_least=0.0,
    )
    max_norm: float | None = param(None, "maximum L2 norm of an output row", above=0.0, at_most=1e15, fine=True)
    replacement: bool = param(
        False,
        "draw negatives with replacement; without, `uniform` draws distinct other rows, others count each row once",
        fine=True,
    )
    validation: str | None = param(
        None,
        "validation data, a file or a fraction of the training rows such as 0.1; the parameters of the best epoch are kept",
        panel="Validation",
    )
    validation_labels: str | None = param(None, "labels of the validation file", panel="Validation")
    patience: int = param(3, "stop after this many epochs without improvement on the validation data", at_least=1, fine=True)
    calibration: float = param(
        0.1,
        f"fraction of the training rows, at most {MAX_ROWS:,} of them, held out to calibrate the probabilities of `predict`; "
        f"none where these are below {MIN_ROWS}; rows of --validation serve instead; 0 trains on all rows",
        at_least=0.0,
        at_most=0.5,
        panel="Validation",
    )
    neighbours: str | None = param(
        None,
        "blend probabilities with the labels of the N nearest training rows, for sparse features: a number, `none`, or `auto`, "
        "where held-out rows gain by it; by default auto for several labels a row or many labels",
        parse=number_or_auto,
        panel="Model",
    )
    max_iterations: int = param(1000, "maximum number of lbfgs iterations", at_least=1, fine=True)
    tolerance: float = param(1e-6, "lbfgs stops when no element of the gradient is larger than this", above=0.0, fine=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        share = None if self.validation is None else share_of_rows(self.validation)
        if share is not None and not 0 < share < 1:
            raise EmbedxError(f"--validation {self.validation}: a fraction of the rows must be between 0 and 1")


def check_given(options: Mapping[str, Any], settings: ClassifySettings, objective: Objective) -> None:
    """Raise `EmbedxError` if one of the options that were given, by which the settings were made, has no effect."""
    by_steps = (settings.optimizer or objective.label_defaults.get("optimizer")) != "lbfgs"
    validates, steps = settings.validation is not None, "an --optimizer that goes by steps"
    from_file = validates and share_of_rows(str(settings.validation)) is None
    is_tree = settings.weights in (None, "tree")
    needs = [
        *((name, is_tree, "--weights tree") for name in OF_TREE),
        ("weight_threshold", settings.weights != "dense", "--weights sparse or tree"),
        ("validation_labels", from_file, "a file for --validation"),
        ("patience", validates, "--validation"),
        ("decay_every", settings.decay < 1, "--set decay"),
        *((name, not by_steps, "--optimizer lbfgs") for name in ("max_iterations", "tolerance")),
        *((name, by_steps, steps) for name in (*OF_STEPS, "time_budget", "replacement", "patience")),
    ]
    check_used(options, needs)


def share_of_rows(validation: str) -> float | None:
    """The share of the training rows that `--validation` names; None if it names a file."""
    try:
        return float(validation)
    except ValueError:
        return None
