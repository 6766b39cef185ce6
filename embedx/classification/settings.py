"""Settings of classification, and which of them apply."""

from embedx import optimizers
from embedx.classification.calibration import MAX_ROWS, MIN_ROWS
from embedx.engine.settings import MAX_RATE, TrainingSettings
from embedx.errors import SettingError
from embedx.evaluation.labels import PROPENSITY_A, PROPENSITY_B
from embedx.labeled.label_rules import LABEL_RULES
from embedx.labeled.scaling import SCALINGS
from embedx.optimizers.contract import LABELS
from embedx.settings import param
from embedx.training.schedule import SCHEDULES

# Values of --neighbours that are not numbers.
AUTO = "auto"
NONE = "none"
MAX_NEIGHBOURS = 1000
# How the weights of the output vectors are stored; label_weights.py decides.
DENSE = "dense"
SPARSE = "sparse"
TREE = "tree"
WEIGHTS = (DENSE, SPARSE, TREE)
# Values of --score.
INNER_PRODUCT = "inner-product"
EUCLIDEAN = "euclidean"
SCORES = (INNER_PRODUCT, EUCLIDEAN)
# Values of --posterior: a number for each weight, or a normal distribution.
POINT = "point"
GAUSSIAN = "gaussian"
POSTERIORS = (POINT, GAUSSIAN)
# Settings that apply to a tree alone.
TREE_SETTINGS = ("leaf_size", "arity", "beam", "trees")
# Labels are put in a tree by default where non-zero values × labels × epochs exceed MAX_PRODUCTS
# or, from MANY_FOR_TREE labels on, MAX_PRODUCTS_OF_MANY. With few labels a tree costs some P@1
# (docs/constants.md). They are here because help texts quote them, as MAX_OF_ALL_FEATURES below;
# label_weights.py applies them, and has the other thresholds of --weights.
MAX_PRODUCTS = 2e12
MAX_PRODUCTS_OF_MANY = 1e11
MANY_FOR_TREE = 10_000
# Features for which a label has sparse weights, and the number of weights up to which these are
# all features by default.
POSITIVE_FEATURES = "positives"
ALL_FEATURES = "all"
MAX_OF_ALL_FEATURES = 10_000_000

# From this many labels on, or with several labels a row, neighbours and propensities are tried.
MANY_LABELS = 1_000
# measured: docs/constants.md
PROPENSITY = 0.25
# Maximum number of rows for training again on all of them, after some were held out; with more
# rows, a tenth that is not trained on makes little difference.
MAX_REFITTED = 20_000

# Default number of epochs of training by steps: ROOT_EPOCHS / √(labels of all rows), within
# MIN_EPOCHS and MAX_EPOCHS (measured: docs/constants.md).
ROOT_EPOCHS = 3000
MIN_EPOCHS = 5
MAX_EPOCHS = 100
# Factor of the learning rate with a hidden layer, where two tables change.
HIDDEN_RATE = 0.4
# Factor of the learning rate where scores are distances, whose gradient is twice the input.
DISTANCE_RATE = 0.5
# Factor of the learning rate with sparse weights (measured: docs/constants.md).
SPARSE_RATE = 3.0
# Maximum number of epochs of dual coordinate descent, which ends before where it converges.
DUAL_EPOCHS = 10
BATCH_SIZE = 100
BIAS = "frequency"
INITIAL_GRADIENT = 4.0

# Settings of training by steps.
STEP_SETTINGS = (
    "epochs",
    "batch_size",
    "learning_rate",
    "initial_gradient",
    "schedule",
    "decay",
    "decay_every",
    "gradient_scale",
    "max_norm",
)


def whole_or_all(text: str) -> int:
    """`100` as a number and `all` as 0. Raises `EmbedxError` for anything else."""
    if text != "all" and not text.isdecimal():
        raise SettingError("batch_size", text, "write a number or `all`")
    if text == "all":
        return 0
    return int(text)


def number_or_auto(text: str) -> str:
    """A number of neighbours, `auto` or `none`. Raises `EmbedxError` for anything else."""
    if text not in (AUTO, NONE) and not (text.isdecimal() and 0 < int(text) <= MAX_NEIGHBOURS):
        problem = f"write a number from 1 to {MAX_NEIGHBOURS}, {AUTO} or {NONE}"
        raise SettingError("neighbours", text, problem)
    return text


class ClassifySettings(TrainingSettings):
    """How classifiers train, whatever the objective. What is None is decided by the objective and
    the data.
    """

    labels: str = param(
        "all",
        "which labels of a row are positives; `first` in the file, the `lowest-id`, or `one` drawn"
        " at random in each epoch",
        choices=LABEL_RULES,
        panel="Data",
    )
    unseen: str = param(
        "keep",
        "test labels that do not occur in training; `keep` counts them as mistakes, `drop` leaves"
        " them out",
        choices=("keep", "drop"),
        has_option=False,
    )
    scaling: str | None = param(
        None,
        "feature scaling; `l2`: rows to unit L2 norm, `column-max`: columns divided by their"
        " maximum, `tf-idf`: counts by tf-idf, then `l2`, `standard`: columns standardised; by"
        " default chosen from the data",
        choices=SCALINGS,
        panel="Data",
    )
    hidden: int | None = param(
        None, "size of a hidden layer; by default none", at_least=1, panel="Model"
    )
    pretrained: str | None = param(
        None,
        "text: initialise the hidden layer from the word vectors of this model folder or .vec file;"
        " sets --hidden",
        metavar="path",
        panel="Model",
    )
    score: str = param(
        INNER_PRODUCT,
        "score of a label; `euclidean`: minus the squared distance between the input and the"
        " label's vector, for dense features or --hidden, as in metric learning",
        choices=SCORES,
        panel="Model",
    )
    posterior: str = param(
        POINT,
        "weights of the labels; `gaussian`: a normal distribution for each, narrow where training"
        " rows tell its weight, over which probabilities are averaged; for dense weights and a"
        " softmax, probit or logistic loss",
        choices=POSTERIORS,
        panel="Model",
    )
    prior_variance: float | None = param(
        None,
        "with --posterior gaussian: variance of a weight that no row tells; by default the best on"
        " held-out rows, without any 1 / mean |x|²",
        above=0.0,
        has_option=False,
    )
    # label_weights.py decides by it.
    weights: str | None = param(
        None,
        "weights on sparse features; `dense`: all, `sparse`: those that are not small, `tree`:"
        " sparse, in a tree over clusters of labels, for losses that are sums over labels; by"
        " default sparse where each label has a loss of its own, tree where values"
        f" × labels × epochs exceed {MAX_PRODUCTS:.0e}, or {MAX_PRODUCTS_OF_MANY:.0e} with"
        f" {MANY_FOR_TREE:,} labels or more",
        choices=WEIGHTS,
        panel="Model",
    )
    label_features: str | None = param(
        None,
        "with --weights sparse: features for which a label has weights; `positives`: those of"
        " its positives, `all`: all, by default where labels × features are at most"
        f" {MAX_OF_ALL_FEATURES:,}",
        choices=(POSITIVE_FEATURES, ALL_FEATURES),
        has_option=False,
    )
    weight_threshold: float = param(
        0.1,
        "with sparse weights: weights of at most this absolute value are dropped after training",
        at_least=0.0,
        has_option=False,
    )
    leaf_size: int = param(
        64, "with --weights tree: maximum number of labels per leaf", at_least=1, has_option=False
    )
    arity: int = param(
        64,
        "with --weights tree: maximum number of children of a node above the leaves",
        at_least=2,
        has_option=False,
    )
    beam: int = param(
        10, "with --weights tree: beam width, in nodes per level", at_least=1, has_option=False
    )
    trees: int = param(
        1,
        "with --weights tree: number of trees whose probabilities are averaged",
        at_least=1,
        at_most=1000,
        panel="Model",
    )
    propensity: float | None = param(
        None,
        "rank labels by probability / propensity^X, for ova with sparse weights or a tree; the"
        " propensity is the probability that a label that applies is annotated (Jain et al. 2016);"
        " the higher, the more rare labels count, 1 to estimate all that apply; by default"
        f" {PROPENSITY} for several labels a row or from {MANY_LABELS:,} labels on, if rows are"
        " held out for calibration, else 0",
        at_least=0.0,
        at_most=1.0,
        panel="Model",
    )
    propensity_a: float = param(
        PROPENSITY_A,
        "A of the propensities of --propensity and psp@k",
        at_least=0.0,
        has_option=False,
    )
    propensity_b: float = param(
        PROPENSITY_B, "B of the propensities of --propensity and psp@k", above=0.0, has_option=False
    )
    bias: str | None = param(
        None,
        "initial biases; `frequency`: log frequencies of the labels, `none`: no biases are"
        f" trained; by default {BIAS}, for lbfgs and dcd zero",
        choices=("zero", "frequency", "none"),
        panel="Model",
    )
    epochs: int | None = param(  # type: ignore[assignment]  # None in settings as they are given alone
        None,
        f"passes over the training data; by default {ROOT_EPOCHS} / √(labels of all rows), from"
        f" {MIN_EPOCHS} to {MAX_EPOCHS}; for dcd at most {DUAL_EPOCHS}; for lbfgs see --set"
        " max-iterations",
        at_least=1,
    )
    batch_size: int | None = param(
        None,
        f"examples per step; by default {BATCH_SIZE}",
        at_least=0,
        parse=whole_or_all,
        metavar="int|all",
    )
    optimizer: str | None = param(
        None,
        f"optimiser; {optimizers.meanings(LABELS)}; by default adagrad, dcd for sparse weights"
        " where it applies",
        choices=optimizers.taken_by(LABELS),
    )
    learning_rate: float | None = param(
        None,
        f"initial learning rate; by default {optimizers.usual_rates(LABELS)}; with --hidden times"
        f" {HIDDEN_RATE}, with --score euclidean times {DISTANCE_RATE}; divided by the root mean"
        " squared norm of the inputs, for sgd by its square, and by the square root of the labels"
        " per row",
        above=0.0,
        at_most=MAX_RATE,
    )
    initial_gradient: float = param(
        INITIAL_GRADIENT,
        "initial value of Adagrad's accumulators, in units of one positive's gradient; at 0 the"
        " first step has the same length for tiny and for large gradients",
        at_least=0.0,
        at_most=1e6,
        has_option=False,
    )
    schedule: str = param(
        "linear",
        "learning rate schedule; `linear`: to zero, `inverse-sqrt`: divided by √updates, `inverse`:"
        " divided by 1 + epochs",
        choices=SCHEDULES,
    )
    decay: float = param(
        1.0,
        "factor on the learning rate after each epoch, on top of the schedule",
        above=0.0,
        at_most=1.0,
        has_option=False,
    )
    decay_every: int | None = param(
        None, "apply decay after every N updates instead", at_least=1, has_option=False
    )
    class_weight: str | None = param(
        None,
        "weights of the training rows, by which their losses are multiplied; `balanced`: all labels"
        " count alike, a row has the mean of 1 / (rows of a label) over its labels; by default"
        " all rows count alike",
        choices=("balanced",),
    )
    gradient_scale: str = param(
        "mean",
        "gradient of a step; `mean`: of its examples, `sum`: the mean times the size of the"
        " data set",
        choices=("mean", "sum"),
        has_option=False,
    )
    l2: float | None = param(
        None,
        "L2 regularisation; l2/2 · |W|² is added to the mean loss; biases are not regularised,"
        " except by dcd; by default 0, for dcd mean |x|² / number of examples",
        at_least=0.0,
    )
    max_norm: float | None = param(
        None, "maximum L2 norm of an output vector", above=0.0, at_most=1e15, has_option=False
    )
    replacement: bool = param(
        False,
        "draw negatives with replacement; without, `uniform` draws distinct rows, other samplers"
        " count each row once",
        has_option=False,
    )
    validation: str | None = param(
        None,
        "validation data, a file or a fraction of the training rows such as 0.1; the parameters of"
        " the best epoch are kept",
        metavar="path|fraction",
        panel="Validation",
    )
    validation_labels: str | None = param(
        None, "labels of the validation file", metavar="path", has_option=False
    )
    patience: int = param(
        3,
        "stop after this many epochs without improvement on the validation data",
        at_least=1,
        has_option=False,
    )
    calibration: float = param(
        0.1,
        f"fraction of the training rows held out to calibrate probabilities; at most {MAX_ROWS:,}"
        f" rows, none if fewer than {MIN_ROWS}; with --validation its rows serve instead; 0 holds"
        f" out none; with up to {MAX_REFITTED:,} rows training is repeated on all of them, if this"
        " is not above the default",
        at_least=0.0,
        at_most=0.5,
        panel="Validation",
    )
    neighbours: str | None = param(
        None,
        "sparse features: blend probabilities with the labels of the N nearest training rows;"
        " `auto`: if that improves them on held-out rows; by default auto for several labels per"
        " row or many labels",
        parse=number_or_auto,
        metavar="int|auto|none",
        panel="Model",
    )
    anchored: bool = param(
        True,
        "with --start: labels of the model get the mean of their old and their trained weights, by"
        " how many of their rows are new; no: the trained ones",
        has_option=False,
    )
    max_iterations: int = param(
        1000, "maximum number of lbfgs iterations", at_least=1, has_option=False
    )
    tolerance: float = param(
        1e-6,
        "lbfgs stops when no element of the gradient is larger than this",
        above=0.0,
        has_option=False,
    )

    @property
    def n_threads(self) -> int:
        """The threads of a run; one where that is still open."""
        return self.threads or 1

    def __post_init__(self) -> None:
        super().__post_init__()
        share = None if self.validation is None else share_of_rows(self.validation)
        if share is not None and not 0 < share < 1:
            problem = "a fraction of the rows must be between 0 and 1"
            raise SettingError("validation", self.validation, problem)


def share_of_rows(validation: str) -> float | None:
    """The share of the training rows that `--validation` names; None if it names a file."""
    try:
        return float(validation)
    except ValueError:
        return None
