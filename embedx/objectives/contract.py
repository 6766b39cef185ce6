"""The contract between an objective and the engine: an objective turns scores into gradients, the
engine does the rest.

    scores z_k = h·w_k         for the candidates: the positives and a selected set of output rows
    loss, c_k = ∂loss/∂z_k     computed by `coefficients`
    w_k -= lr · c_k · h        h -= lr · Σ_k c_k w_k, done by the engine

An objective has three faces: the loss, which the engine calls; `traits`, most of which tests check;
and `about`, which people read.

`coefficients` is one compiled function with this signature for every objective, so that one
compiled engine serves them all by an indirect call:

    coefficients(batch, state, constants, n_examples, n, lr) -> summed loss, float64

    batch      `Batch`: examples [:n_examples] and their candidates [:n]
      z                   float32 (examples, candidates)
                          scores; overwritten by ∂loss/∂z, with the state held fixed
      label               like z
                          weight of a positive, else 0; in skip-gram the number of pairs. On a tree
                          the number of the example's positives whose bit at this node is 1
      sample_count        like z
                          how often the candidate was drawn as noise; 1 for all rows of an exact
                          loss. On a tree the number of positives whose bit at this node is 0
      log_expected_count  like z
                          log of the expected number of draws, for a positive as if it were noise;
                          0 where nothing was drawn. sample_count / e^log_expected_count is the
                          importance weight, which makes a sum over the draws an unbiased estimate
                          of the sum over all rows
      uniforms            float32 (examples, uniforms_width)
                          fresh random numbers in (0, 1)
      state_row           int64 (examples,)
                          each example's row in `state`: its input word (skip-gram), its centre
                          word (CBOW) or its number (classification)
      n_updates           int64 (examples,)
                          number of updates of that row so far; at 0 it has no value yet
      score_gain          like z
                          change of a score per unit of lr · its coefficient, for proximal
                          objectives: |h|². In skip-gram, where both h and w_k move, each at its own
                          rate: (|h|² · rate of w_k + |w_k|² · rate of h) / lr
    state      float32 (state rows, state_width)
               the objective's own; updated first: gradients are those at the new state
    constants  float32
               constants of the run, from `Objective.constants`
    lr         float32
               learning rate of the objective's own state: the engine's, times
               `UpdateRule.state_rate`

The function is also compiled for float64, for the optimum over a full batch: write constants as
float32 or integers; helpers take both types. Process examples in order, because several may share a
row of the state. A candidate with neither label nor sample_count has an arbitrary score: its
coefficient is 0, and it must stay out of sums and maxima. An example without a positive leaves its
state unchanged and gets coefficients 0.

`positives` defines an example:

    "single"  one positive and its candidates, each row once. A row that is both the positive and
              drawn (an accidental hit) has both weights if the objective `keeps_accidental_hits`,
              else its label alone
    "joint"   all positives of an input, each row once, with accidental hits as above; each draw
              counts once
    "summed"  all positives of an input, for a loss that is a sum over candidates: every draw counts
              once for each positive, and a row may be there twice, as a positive and as noise.
              Requires `keeps_accidental_hits`

An input with several pairs in a block of skip-gram is passed to an objective that `merges_pairs` as
one example: label_k is the number of its m pairs with positive k. The gradient is the sum over the
pairs; the positives of other pairs are among the negatives of each. A candidate that is present
with certainty has sample_count 1 and log_expected_count 0. On a tree the bits of all paths are
counted.

An objective with "joint" positives and `pairs_as_set` gets the same example, and treats the m
positives as one set, not as m pairs.

An objective that is a sum over candidates may have a second function of the same signature,
`dual_steps`, for dual coordinate descent: it minimises ½|w_k|² + C Σ φ(z_k) for each k. w_k is the
sum of its examples' inputs times coefficients, whose absolute values are the dual variables.

    dual_steps(batch, alpha, constants, n_examples, n, C) -> summed loss at the scores

      batch.z           overwritten by the step of w_k along the input
      batch.score_gain  squared length of the input
      batch.state_row   each example's row in alpha, float32 (examples, n), which is updated; zero
                        at the start

A sampler (`embedx.samplers`) selects the candidates; `candidates` names the kinds of samplers that
an objective takes.
"""

import abc
import dataclasses
from typing import Any, Literal

import numpy as np
from numpy import ndarray

from embedx.errors import Setting
from embedx.samplers import names_of
from embedx.samplers.contract import Candidates, Paths
from embedx.search.spec import SearchSpec
from embedx.settings import Options, Settings, param


class SampledSettings(Settings):
    """Settings of every objective whose negatives are drawn."""

    negatives: int = param(5, "number of negatives drawn for each positive", at_least=1)


@dataclasses.dataclass(frozen=True)
class ByInput:
    """A default of classification that depends on the input of the output layer."""

    dense: Any
    sparse: Any
    hidden: Any

    def __str__(self) -> str:
        return (
            f"{self.dense:g} on dense features, {self.sparse:g} on sparse ones, {self.hidden:g}"
            " with --hidden"
        )


@dataclasses.dataclass(frozen=True)
class About:
    """The description of an objective in help, README, docs and `embedx objectives`."""

    title: str
    paper: str
    formula: str  # of the loss, in a line
    advice: str  # when to choose it, in a line
    words_caution: str = ""  # why it does not suit word vectors, in a line; "" if it does


@dataclasses.dataclass(frozen=True)
class Traits:
    """Properties of a loss, which the engine relies on; `embedx.testing` checks most of them."""

    # ---- of the loss
    stable: bool = True  # finite at any score
    # At a fixed state, the expected coefficients over draws are those of sampler "all".
    unbiased: bool = False
    # With all rows, -loss never exceeds the exact softmax's log-probability.
    bound: bool = False
    separable: bool = False  # a coefficient depends on its own candidate alone
    sparse_gradient: bool = False  # with all rows, most coefficients are exactly 0
    # The total weight of the negatives is `negatives`, however many candidates there are.
    weighs_negatives: bool = False

    # ---- of the inputs of `coefficients`; the module's docstring says what each means
    merges_pairs: bool = False
    pairs_as_set: bool = False
    keeps_accidental_hits: bool = False
    uses_log_expected_count: bool = True
    uses_score_gain: bool = False
    # `prepare` takes an order of the classes in which similar ones are neighbours, if they have
    # features.
    uses_class_order: bool = False
    # For words, drawn rows represent those that a search does not find; also if the loss is
    # `unbiased`.
    has_tail: bool = False
    # For labels, `negatives` drawn rows represent those that a search does not find.
    has_label_tail: bool = False

    # ---- of predictions
    # `log_probability` is meaningful without a fitted temperature.
    calibrated: bool = True
    # The order of classes by score is their order by `log_probability`.
    ranks_by_score: bool = True
    adds_log_noise: bool = False  # `log_probability` adds the log of the noise to the scores


class Objective(abc.ABC):
    """Base class of objectives: settings, loss, traits and description. `name`, `about` and
    `coefficients` are required.
    """

    name: str  # what the user types after --objective
    about: About
    traits: Traits = Traits()

    # ---- settings

    Settings: type[Settings] = Settings
    # Defaults in place of those of the task, or of its own settings: for classification, perhaps
    # by kind of input (`ByInput`), with rates for inputs of length 1; for skip-gram; and for
    # skip-gram on large text, in place of these.
    label_defaults: Options = {}
    word_defaults: Options = {}
    large_text_defaults: Options = {}
    # Number of pairs in a block of text for one drawn negative. More pairs per draw save time;
    # above 15 vectors got worse, and 60 diverged (explored, not on record).
    pairs_per_draw: float = 7.5
    # Its own settings that only word vectors use, and those that only classification uses.
    word_settings: tuple[str, ...] = ()
    label_settings: tuple[str, ...] = ()

    def __init__(self, settings: Any) -> None:
        self.settings = settings
        self.traits = self.traits_for_settings()

    def traits_for_settings(self) -> Traits:
        """Its traits; overridden if they depend on its settings."""
        return self.traits

    def without_effect(self) -> dict[str, Setting]:
        """Its own settings that have no effect, each with the setting it would need."""
        return {}

    # ---- the loss

    # "proximal": z is overwritten by the proximal step divided by -lr.
    step: Literal["gradient", "proximal"] = "gradient"
    positives: Literal["single", "joint", "summed"] = "single"
    # Kinds of samplers that it takes; the first is the default.
    candidates: tuple[Candidates, ...] = ("drawn", "all")
    default_sampler: str = "unigram"  # among samplers that draw
    state_width: int = 0
    uniforms_width: int = 0

    @property
    @abc.abstractmethod
    def coefficients(self) -> Any:
        """The compiled function of the module's docstring."""

    @property
    def dual_steps(self) -> Any:
        """The second compiled function of the module's docstring; None if there is none."""
        return None

    def constants(self, n_draws: int, n_classes: int) -> ndarray:
        """Constants of `coefficients`, float32, for n_draws rows drawn per example."""
        return np.zeros(1, np.float32)

    def optimal_state(self, z: ndarray, label: ndarray) -> ndarray:
        """The optimal state in closed form, float64 (n, state_width), of examples whose candidates
        are all rows, with z and label (n, K).
        """
        return np.zeros((len(z), self.state_width))

    def loss_unit(self, per: str) -> str:
        """The unit of the mean loss, such as "nats per pair" for per = "pair": nats if the loss is
        minus a log-likelihood, or a bound of one.
        """
        return f"nats per {per}" if self.traits.calibrated else f"per {per}"

    # ---- outputs and candidates

    @classmethod
    def samplers(cls) -> tuple[str, ...]:
        """The names of the samplers that it takes; the default is first.

        An `unbiased` loss takes the rows of a search, too.
        """
        kinds = cls.candidates
        if cls.traits.unbiased and cls.positives != "summed" and "retrieved" not in kinds:
            kinds = (*kinds, "retrieved")
        return names_of(kinds, cls.default_sampler)

    @property
    def negatives(self) -> int:
        """Draws per positive, as the user set them; 0 for objectives that draw nothing."""
        return getattr(self.settings, "negatives", 0)

    def prepare(self, counts: ndarray, order: ndarray | None = None) -> None:  # noqa: B027
        """Fit a tree, for objectives that have one. Called before training and on loading.

        counts  int64 (n_classes,)  how often each class occurs
        order   int32 (n_classes,)  all classes, those that occur first, in an order whose halves,
                                    quarters, ... are clusters of similar classes
        """

    def paths(self) -> Paths | None:
        """The tree, for objectives whose candidates are nodes on a path."""
        return None

    def search(self, n_classes: int) -> SearchSpec | None:
        """The parameters of the search, for objectives that take retrieved candidates."""
        return None

    def n_outputs(self, n_classes: int) -> int:
        """The number of outputs, each with a vector and a score, for `n_classes` classes."""
        return n_classes

    # ---- predictions

    def initial_bias(self, p: ndarray, noise: ndarray) -> ndarray:
        """The scores, float (n_outputs,), that predict the probabilities p > 0, (n_classes,), for
        any input; `noise`, (n_classes,), is the distribution of the draws.
        """
        return np.log(p)

    def log_probability(self, z: ndarray, log_noise: ndarray) -> ndarray:
        """log p(k | h), float (..., K), from the scores of all outputs, (..., n_outputs), and
        log_noise, (K,), or (..., K) if the noise depends on the input.
        """
        return log_softmax(z)

    def log_mean_probability(self, z: ndarray, variance: ndarray) -> ndarray | None:
        """log p(k | h), float (n, K), for scores that are independent normal numbers of means z and
        these variances, both (n, K). None if it has no such formula.
        """
        return None

    def score_information(self, z: ndarray, row: ndarray, label: ndarray) -> ndarray | None:
        """The information of examples about their scores z, float (n, K): the second derivative of
        the augmented loss (Ruiz et al. 2018, eq. 7), expected under the best distribution of the
        augmenting variable; a mean over the labels of an example.

        row, label  int (n_labels_in_all,): the labels of the examples, by ascending example

        None where `log_mean_probability` is None.
        """
        return None

    def label_probability(self, z: ndarray) -> ndarray | None:
        """p(k is among the labels | h), (..., K), from the scores of all outputs: above 1/2 for
        z > 0. None if labels are exclusive, so that only `log_probability` is defined.
        """
        log_p = self.log_label_probability(z)
        return None if log_p is None else np.exp(log_p)

    def log_label_probability(self, z: ndarray) -> ndarray | None:
        """The log of `label_probability`: negative, finite and increasing at any finite score, so
        that products of many probabilities can be ranked. None if `label_probability` is None.
        """
        return None

    def scaled_scores(self, scale: ndarray) -> tuple[ndarray, ndarray]:
        """(factors, offsets) of the scores of labels, both (n_labels,), that multiply a small
        `label_probability` by `scale`, at most 1. Called only if the objective has
        `log_label_probability`.
        """
        return np.ones(len(scale)), np.log(scale)


def log_softmax(z: ndarray) -> ndarray:
    """z minus the log of the sum of its exponentials along the last axis."""
    shifted = z - z.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
