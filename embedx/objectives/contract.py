"""The contract between an objective and the engine: an objective works on scores, and the engine
does the rest.

    scores z_k = h·w_k         for the candidates: the positives and a selected set of output rows
    loss, c_k = ∂loss/∂z_k     computed by `coefficients`
    w_k -= lr · c_k · h        h -= lr · Σ_k c_k w_k, done by the engine

An objective has three faces: the loss, which the engine calls; `traits`, which tests check; and
`about`, which people read.

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
      key                 int64 (examples,)
                          each example's row in `state`: its input word (skip-gram), its centre
                          word (CBOW) or its number (classification)
      n_updates           int64 (examples,)
                          how often that row was updated before; at 0 it holds nothing yet
      score_gain          like z
                          how far a score moves per unit of lr · its coefficient, for objectives
                          whose step is not a gradient: |h|². In skip-gram, where h moves along w_k
                          as w_k along h, each row at its own rate, |h|² times the row's rate plus
                          |w_k|² times that of h, over lr
    state      float32 (keys, state_width)
               kept per key by the objective; updated first: gradients are those at the new state
    constants  float32
               constants of the run, from `Objective.constants`
    lr         float32
               learning rate of the objective's own state: the engine's, times
               `UpdateRule.state_rate`

The same function is compiled for float64 too, where a full batch is brought to its optimum:
constants are written as float32 or integers, and helpers take both. Examples are taken in order,
because several may share a key. A candidate with neither label nor sample_count has an arbitrary
score: its coefficient is 0, and it must stay out of sums and maxima. An example without a positive
leaves its state as it is and gets coefficients 0.

`positives` says what an example is:

    "single"  one positive and its candidates, each row once. A row that is both the positive and
              drawn (an accidental hit) has both weights if the objective `keeps_accidental_hits`,
              its label alone if not
    "joint"   all positives of an input, each row once, with accidental hits as above; the draws
              count once
    "summed"  all positives of an input, for a loss that is a sum over candidates: every draw counts
              once for each positive, and a row may stand twice, once as a positive and once as
              noise. Requires `keeps_accidental_hits`

An input with several pairs in a block of skip-gram is passed to an objective that `merges_pairs` as
one example: label_k is how many of its m pairs have k as their positive. The gradient is the sum
over the pairs, each taken separately, with the positives of other pairs among its negatives. A
candidate that is present with certainty rather than drawn has sample_count 1 and log_expected_count
0. On a tree the bits of all paths are counted.

An objective whose positives are "joint" and that takes `pairs_as_set` gets the same, and treats the
m positives as one set, not as m pairs.

An objective that is a sum over candidates may have a second function of the same signature,
`dual_steps`, for dual coordinate descent: ½|w_k|² + C Σ φ(z_k) is minimised for each k, and w_k is
the sum of its examples' inputs times numbers whose sizes are the dual variables.

    dual_steps(batch, alpha, constants, n_examples, n, C) -> summed loss at the scores

      batch.z           overwritten by the step of w_k along the input
      batch.score_gain  squared length of the input
      batch.key         each example's row in alpha, float32 (keys, n), which is updated; zero at
                        the start

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


class SampledSettings(Settings, by_set=True):
    """Settings of every objective whose negatives are drawn."""

    negatives: int = param(
        5, "number of negatives drawn for each positive", at_least=1, by_set=False
    )


@dataclasses.dataclass(frozen=True)
class ByInput:
    """A default of classification that depends on what output rows meet."""

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
    """What people read about an objective: in help, README, docs and `embedx objectives`."""

    title: str
    paper: str
    formula: str  # of the loss, in a line
    advice: str  # when to choose it, in a line
    words_caution: str = ""  # why it is not for word vectors, in a line, if it is not


@dataclasses.dataclass(frozen=True)
class Traits:
    """What holds of a loss: `embedx.testing` checks it, and the engine skips work because of it."""

    # ---- of the loss
    stable: bool = True  # finite at any score
    # at a fixed state, expected coefficients over draws are those of sampler "all"
    unbiased: bool = False
    # -loss with all rows never exceeds the exact softmax's log-probability
    bound: bool = False
    separable: bool = False  # a coefficient depends on its own candidate alone
    sparse_gradient: bool = False  # among all rows most coefficients are exactly 0
    # candidates weigh as much as `negatives` together, however many they are: with all rows, too
    weighs_negatives: bool = False

    # ---- of the inputs of `coefficients`; the module's docstring says what each means
    merges_pairs: bool = False
    pairs_as_set: bool = False
    keeps_accidental_hits: bool = False
    uses_log_expected_count: bool = True
    uses_score_gain: bool = False
    # `prepare` takes an order in which similar classes are neighbours, where they have features
    uses_class_order: bool = False
    # where words are trained, drawn rows stand for those that a search does not find
    has_tail: bool = False
    # the same where labels are trained, by --negatives drawn rows
    has_label_tail: bool = False

    # ---- of predictions
    # `log_probability` means something before a temperature is fitted to it
    calibrated: bool = True
    # classes in order of their scores are in order of `log_probability`
    ranks_by_score: bool = True
    adds_log_noise: bool = False  # `log_probability` adds the log of the noise to the scores


class Objective(abc.ABC):
    """What an objective declares: its settings, its loss, its traits, and what people read about
    it. `name`, `about` and `coefficients` are required.
    """

    name: str  # what the user types after --objective
    about: About
    traits: Traits = Traits()

    # ---- settings

    Settings: type[Settings] = Settings
    # Defaults that suit it better than the task's own, of its own settings too: of classification,
    # for each kind of input if need be (`ByInput`), with rates for inputs of length 1; of
    # skip-gram; and of skip-gram in place of these where the text is large.
    label_defaults: Options = {}
    word_defaults: Options = {}
    large_text_defaults: Options = {}
    # Pairs of a block of text that one drawn negative stands for. More saves draws; above 15
    # vectors get worse, and 60 diverges (eval/results/objectives.md).
    pairs_per_draw: float = 7.5
    # settings of its own that have no effect in classification, and in skip-gram
    word_settings: tuple[str, ...] = ()
    label_settings: tuple[str, ...] = ()

    def __init__(self, settings: Any) -> None:
        self.settings = settings
        self.traits = self.resolved_traits()

    def resolved_traits(self) -> Traits:
        """Its traits, where they depend on its settings."""
        return self.traits

    def without_effect(self) -> dict[str, Setting]:
        """Settings of its own that have no effect beside its others, each with what it needs."""
        return {}

    # ---- the loss

    # "proximal": z is overwritten by a proximal step over -lr
    kind: Literal["gradient", "proximal"] = "gradient"
    positives: Literal["single", "joint", "summed"] = "single"
    # which samplers it takes; the first kind is the default
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
        """The second function of the module's docstring; None where there is none."""
        return None

    def constants(self, n_draws: int, n_classes: int) -> ndarray:
        """float32: constants of `coefficients`, given the number of rows drawn for an example."""
        return np.zeros(1, np.float32)

    def optimal_state(self, z: ndarray, label: ndarray) -> ndarray:
        """The best state in closed form for examples that meet all rows, float64 (n, state_width),
        from z and label, (n, K).
        """
        return np.zeros((len(z), self.state_width))

    def loss_unit(self, per: str) -> str:
        """The unit of the mean loss of each `per`: nats where the loss is minus a log-likelihood,
        or bounds one.
        """
        return f"nats per {per}" if self.traits.calibrated else f"per {per}"

    # ---- output rows and candidates

    @classmethod
    def samplers(cls) -> tuple[str, ...]:
        """The names of the samplers that it takes; the first is the default."""
        return names_of(cls.candidates, cls.default_sampler)

    @property
    def negatives(self) -> int:
        """How many draws the user wants for each positive; 0 for objectives that draw nothing."""
        return getattr(self.settings, "negatives", 0)

    def prepare(self, counts: ndarray, order: ndarray | None = None) -> None:  # noqa: B027 -- most have nothing to fit
        """Fit a tree, for objectives that have one. Called before training and on loading.

        counts  int64 (n_classes,)  how often each class occurs
        order   int32 (n_classes,)  all classes, those that occur first, in an order whose halves,
                                    quarters, ... are alike
        """

    def paths(self) -> Paths | None:
        """The tree, for objectives that take candidates on its path."""
        return None

    def search(self, n_classes: int) -> SearchSpec | None:
        """How rows are found, for objectives that take retrieved candidates."""
        return None

    def n_rows(self, n_classes: int) -> int:
        """How many output rows score `n_classes` classes."""
        return n_classes

    # ---- predictions

    def initial_bias(self, p: ndarray, noise: ndarray) -> ndarray:
        """float (n_rows,): the scores that predict p, (n_classes,) above 0, for any input; `noise`
        (n_classes,) is the distribution of the draws.
        """
        return np.log(p)

    def log_probability(self, z: ndarray, log_noise: ndarray) -> ndarray:
        """log p(k | h), float (..., K), from the scores of all rows (..., rows) and the log of the
        noise distribution, (K,) or (..., K) where it depends on the input.
        """
        return log_softmax(z)

    def label_probability(self, z: ndarray) -> ndarray | None:
        """p(k is among the labels | h) from the scores of all rows, (..., K), above 1/2 where z is
        above 0; None where labels compete for one place, so that only `log_probability` is known.
        """
        log_p = self.log_label_probability(z)
        return None if log_p is None else np.exp(log_p)

    def log_label_probability(self, z: ndarray) -> ndarray | None:
        """The log of `label_probability`, below 0, finite at any finite score and growing with it,
        so that products of many probabilities rank; None where that is.
        """
        return None

    def scaled_scores(self, scale: ndarray) -> tuple[ndarray, ndarray]:
        """Factors and offsets of the scores of labels, both (n_labels,), that multiply a small
        `label_probability` by `scale`, at most 1. Asked for where the objective has
        `log_label_probability`.
        """
        return np.ones(len(scale)), np.log(scale)


def log_softmax(z: ndarray) -> ndarray:
    """z minus the log of the sum of its exponentials along the last axis."""
    shifted = z - z.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
