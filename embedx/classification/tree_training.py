"""How sparse weights are trained label by label: a tree over labels (label_tree.py) of several
levels, or of a single one.

One level is trained after another, a tile of nodes at a time.

The labels are clustered by the features of their examples (search/balanced_tree.py). A node is
trained on the examples that reach its parent: those with a label below the parent, and those for
which the levels above, already trained, put the parent among the likeliest nodes, as they will be
in prediction ("matcher-aware negatives" of PECOS, Yu et al. 2022).

A pass of the trainer is a level of a tree, and a chunk one of its tiles (engine/tiles.py), which
nothing but the level above has an influence on: the result does not depend on the number of
threads.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy import float32, int32, int64, ndarray, uint64
from scipy.sparse import csr_matrix

from embedx.classification import label_tree
from embedx.classification.clustering import vectors_of
from embedx.classification.history import History
from embedx.classification.label_tree import LabelTree
from embedx.classification.settings import ClassifySettings
from embedx.classification.steps import identify, update_rule
from embedx.classification.strategies import first_state
from embedx.engine import tiles
from embedx.engine.examples import Csr, Examples, csr_of, examples_of
from embedx.engine.loading import load_kernel
from embedx.engine.select import POSITIVES
from embedx.engine.sparse_levels import Level, best_nodes, level_of
from embedx.engine.tiles import WIDTH
from embedx.errors import Setting
from embedx.evaluation.labels import inverse_propensity
from embedx.kernels.random import stream_key
from embedx.labeled.data import Labels
from embedx.labeled.rules import input_length
from embedx.objectives.contract import Objective
from embedx.optimizers.contract import UpdateRule
from embedx.optimizers.dcd import DualCoordinateDescent
from embedx.runtime.interrupts import to_the_end
from embedx.runtime.memory import MemoryPlan, plan_memory
from embedx.runtime.progress import Progress
from embedx.search.balanced_tree import balanced_tree
from embedx.training import trainer
from embedx.training.checkpoint import Checkpoints
from embedx.training.schedule import Schedule
from embedx.training.state import TrainState
from embedx.training.strategy import Strategy, Tally, Wrap

MATCHED_ROWS = 1 << 14  # examples that are looked up at a time


class LevelPlan(NamedTuple):
    """A level that is to be trained: what is known of it before."""

    first_node: ndarray  # int64 (n_groups + 1,)
    node_of_place: ndarray  # int32 (n_places,): the node of each label, in the tree's order
    node_above: ndarray  # int32 (n_places,): that of the level above
    tiles: list[tuple[int, int, int]]  # (group, first node, last node), at most WIDTH nodes


class TreePlan(NamedTuple):
    """The labels of a tree in its order, and its levels from the top."""

    labels: ndarray  # int32 (n_places,)
    levels: list[LevelPlan]


class Trained(NamedTuple):
    """What was learned of a tile."""

    feature: ndarray  # int32 (n_kept,)
    label: ndarray  # int32 (n_kept,): within the tile
    value: ndarray  # float32 (n_kept,)
    bias: ndarray  # float32 (n_labels,)
    loss: float  # of the last epoch


def plan_of(labels: ndarray, depth: int, edges: ndarray, arity: int) -> TreePlan:
    """The levels of a tree whose leaves, 2^depth, are labels[edges[k]:edges[k + 1]]; a node has at
    most `arity` children.
    """
    at_a_time = max(1, int(math.log2(arity)))
    n_levels = -(-depth // at_a_time)
    depths = [0] + [depth * (level + 1) // n_levels for level in range(n_levels)]
    leaf = np.repeat(np.arange(2**depth), np.diff(edges))
    levels = []
    for above, own in itertools.pairwise(depths):
        first_node = np.arange(0, 2**own + 1, 2 ** (own - above))
        levels.append(_level_plan(first_node, leaf >> (depth - own), leaf >> (depth - above)))
    levels.append(_level_plan(edges, np.arange(len(labels)), leaf))
    return TreePlan(labels, levels)


def _level_plan(first_node: ndarray, node_of_place: ndarray, node_above: ndarray) -> LevelPlan:
    tiles = [
        (group, at, min(at + WIDTH, last))
        for group, (first, last) in enumerate(itertools.pairwise(first_node.tolist()))
        for at in range(first, last, WIDTH)
    ]
    return LevelPlan(
        first_node.astype(int64), node_of_place.astype(int32), node_above.astype(int32), tiles
    )


def plans(
    features: csr_matrix, examples: Examples, counts: ndarray, settings: Any, progress: Progress
) -> list[TreePlan]:
    """The trees that the settings ask for, with clusters of the labels that occur."""
    labels = np.flatnonzero(counts).astype(int32)
    depth = 0
    while (
        settings.weights == "tree"
        and settings.leaf_size << depth < len(labels)
        and 2 << depth <= len(labels)
    ):
        depth += 1
    if depth == 0:
        if settings.weights == "tree":
            progress.note(
                f"{len(labels):,} labels are too few for a tree with leaves of ",
                Setting("leaf_size", settings.leaf_size),
                ": all are scored",
            )
        # rows of a tile have masks of about one size
        by_frequency = labels[np.argsort(-counts[labels], kind="stable")]
        return [plan_of(by_frequency, 0, np.array([0, len(labels)]), settings.arity)]
    progress.start("clustering labels", settings.trees, " trees")
    vectors = vectors_of(
        features, Labels(examples.label_offsets, examples.label_ids), labels, settings.threads
    )
    trees = []
    for t in range(settings.trees):
        order, edges = balanced_tree(
            vectors, features.shape[1], depth, settings.seed + t, settings.threads
        )
        trees.append(plan_of(labels[order], depth, edges, settings.arity))
        progress.update(t + 1)
    progress.finish()
    return trees


class TreeTraining(Strategy):
    """Trains the levels of trees, one after another.

    settings   resolved `ClassifySettings`
    features   csr_matrix float32, those of `examples`
    by_others  the tiles are trained elsewhere, and come by `add_tiles`

    Losses of one tile say nothing of those of another, so that the trainer cannot judge them; by
    the dual a run cannot diverge.
    """

    is_guarded = False

    def __init__(
        self,
        objective: Objective,
        settings: Any,
        features: csr_matrix,
        examples: Examples,
        optimizer: UpdateRule,
        counts: ndarray,
        trees: Sequence[TreePlan],
        *,
        by_others: bool = False,
    ) -> None:
        self.by_others, self.loss_unit = by_others, objective.loss_unit("row")
        self.objective, self.settings, self.features = objective, settings, features
        self.optimizer, self.counts = optimizer, counts
        # Inputs are trained on divided by it, and weights after, so that the penalty, the threshold
        # and the rates by default mean the same whatever the scale of the features.
        self.length = input_length(features, examples.weight if examples.weight.size else None)
        self.examples = examples
        if self.length != 1:
            self.examples = examples._replace(
                values=(examples.values / float32(self.length)).astype(float32)
            )
        self.plans, self.n_features = trees, features.shape[1]
        self.levels = [(t, plan) for t, tree in enumerate(trees) for plan in tree.levels]
        self.n_chunks = max(len(plan.tiles) for _, plan in self.levels)
        self.place = np.full((len(trees), len(counts)), -1, int32)
        for t, tree in enumerate(trees):
            self.place[t, tree.labels] = np.arange(len(tree.labels))
        n_of_row = np.diff(examples.label_offsets)
        self.example = np.repeat(np.arange(len(n_of_row), dtype=int32), n_of_row)
        self.n_labelled = max(int(np.count_nonzero(n_of_row)), 1)
        self.weights = examples.weight.astype(np.float64)
        # the sum of the weights of the examples that have labels
        self.labelled_weight = float(self.n_labelled)
        if self.weights.size:
            self.labelled_weight = float(self.weights[n_of_row > 0].sum())
        self.n_nodes = sum(int(plan.first_node[-1]) for _, plan in self.levels)
        self.batch = min(int(settings.batch_size or 1), len(examples.label_offsets) - 1)
        self.constants = objective.constants(WIDTH, WIDTH)
        self.first_state = float32(first_state(settings, optimizer, self.examples, self.batch))
        self.is_dual = settings.optimizer == DualCoordinateDescent.name
        self.workers = [self._new_worker() for _ in range(0 if by_others else settings.threads)]
        self.trained: list[list[Level]] = [[] for _ in trees]
        self.done: dict[int, Trained] = {}  # by tile of the level that is under way
        # mean over examples and trees, of the last epoch, over the labels that an example reached
        self.loss = 0.0

    def tile_plan(self, n_members: int, rate: float, key: uint64) -> tiles.TilePlan:
        """How a tile of a group of so many examples is trained.

        The penalty belongs to the mean loss over all examples, where those that do not reach the
        group have none; and to weights of inputs as they were.
        """
        settings, l2 = self.settings, self.optimizer.l2 / self.length**2
        return tiles.TilePlan(
            self.batch,
            (
                float(len(self.examples.label_offsets) - 1)
                if settings.gradient_scale == "sum"
                else 1.0
            ),
            settings.bias != "none",
            self.objective.traits.keeps_accidental_hits,
            POSITIVES[self.objective.positives],
            is_masked=True,
            optimizer=self.optimizer._replace(l2=l2 * self.labelled_weight / max(n_members, 1)),
            constants=self.constants,
            epochs=int(settings.epochs),
            lr=float32(rate),
            falls=settings.schedule == "linear",
            threshold=float32(settings.weight_threshold),
            key=key,
            first_state=self.first_state,
            c=float32(1 / (l2 * self.labelled_weight) if self.is_dual else 0),
        )

    def _new_worker(self) -> tiles.TileWorkspace:
        n, n_values = len(self.examples.label_offsets) - 1, len(self.examples.values)
        return tiles.new_workspace(
            n, n_values, self.n_features, self.batch, self.optimizer, is_dual=self.is_dual
        )

    def compile(self, progress: Progress) -> None:
        self.kernel = tiles.train_tile_dual if self.is_dual else tiles.train_tile
        function = self.objective.dual_steps if self.is_dual else self.objective.coefficients
        empty = Csr(np.zeros(2, int64), np.zeros(0, int32))
        groups, plan = (
            tiles.LabelGroups(empty, empty, np.zeros(1, float32)),
            self.tile_plan(1, 0.0, uint64(0)),
        )
        worker = self.workers[0] if self.workers else self._new_worker()
        self.functions = load_kernel(
            self.kernel, function, None, (self.examples, groups, 0, 0, 0, plan, worker), progress
        )

    def prepare(self, level: int) -> None:
        """Begin a level; done while no thread trains."""
        if self.by_others:
            return
        t, plan = self.levels[level]
        self._find_members(t, plan)
        self.scores_of_row = (
            float(np.diff(self.members.indptr) @ np.diff(plan.first_node)) / self.n_labelled
        )
        n_nodes = int(plan.first_node[-1])
        self.bias = np.zeros(n_nodes, float32)
        # what predicts how often each node occurs among the examples that reach it
        if self.settings.bias == "frequency":
            n_members = np.repeat(self._sizes(self.members), np.diff(plan.first_node))
            p = np.clip(
                self._sizes(self.positives), 0.5, np.maximum(n_members - 0.5, 0.5)
            ) / np.maximum(n_members, 1)
            self.bias[:] = self.objective.initial_bias(p, np.full(n_nodes, 1 / n_nodes))

    def _sizes(self, examples: Csr) -> ndarray:
        """How many examples each list has, by weight."""
        sizes = np.diff(examples.indptr)
        if not self.weights.size:
            return sizes
        key = np.repeat(np.arange(len(sizes)), sizes)
        return np.bincount(key, self.weights[examples.indices], len(sizes))

    def _find_members(self, t: int, plan: LevelPlan) -> None:
        """Find the examples that reach the groups of a level, and which have its nodes."""
        places = self.place[t, self.examples.label_ids]
        self.positives = csr_of(plan.node_of_place[places], self.example, int(plan.first_node[-1]))
        groups, examples = [plan.node_above[places]], [self.example]
        for start in range(
            0, len(self.features.indptr) - 1 if self.trained[t] else 0, MATCHED_ROWS
        ):
            found = None
            for level in self.trained[t]:
                found = best_nodes(
                    self.features[start : start + MATCHED_ROWS],
                    level,
                    found,
                    self.settings.beam,
                    self.objective.log_label_probability,
                    self.settings.threads,
                )
            assert found is not None
            groups.append(found.node.ravel())
            examples.append(
                np.repeat(
                    np.arange(start, start + len(found.node), dtype=int32), found.node.shape[1]
                )
            )
        self.members = csr_of(
            np.concatenate(groups), np.concatenate(examples), len(plan.first_node) - 1
        )

    def train(self, worker: Any, epoch: int, chunk: int, rate: float) -> Tally:
        bounds = self.levels[epoch][1].tiles
        if chunk >= len(bounds) or chunk in self.done:
            return Tally()
        group, first, last = bounds[chunk]
        n_members = int(self.members.indptr[group + 1] - self.members.indptr[group])
        plan = self.tile_plan(n_members, rate, stream_key(self.settings.seed, epoch, chunk))
        groups = tiles.LabelGroups(self.members, self.positives, self.bias)
        loss, n_features = self.kernel(
            *self.functions, self.examples, groups, group, first, last, plan, worker
        )
        trained = tiles.kept_weights(groups, first, last, plan, worker, n_features)
        self.done[chunk] = Trained(*trained, self.bias[first:last].copy(), loss)
        # The loss of a row is the sum over the labels that it reaches; that of the nodes above is
        # none of labels.
        is_of_labels = self.is_of_labels(epoch)
        n_rows = n_members * (last - first) / self.scores_of_row
        return Tally(loss * is_of_labels, n_rows * is_of_labels, last - first)

    @property
    def level(self) -> int:
        """The number of the level that is under way; that of all levels when there is none."""
        return sum(map(len, self.trained))

    def finish_level(self, level: int) -> None:
        """Keep a level, with those of its tiles that are trained; the probability of other nodes is
        next to nothing.
        """
        t, plan = self.levels[level]
        never = self.objective.initial_bias(
            np.array([0.5 / max(len(self.example), 1)]), np.array([1.0])
        )[0]
        bias, weights = np.full(int(plan.first_node[-1]), never, float32), []
        factor, offset = (
            self._scaling(t)
            if self.is_of_labels(level)
            else (np.ones(len(bias)), np.zeros(len(bias)))
        )
        for n, each in sorted(self.done.items()):  # in this order sums do not depend on threads
            self.loss += (
                self.is_of_labels(level) * each.loss / self.labelled_weight / len(self.plans)
            )
            group, first, last = plan.tiles[n]
            value = each.value * factor[first:last].astype(float32)[each.label]
            weights.append((group, first, each.feature, each.label, value / float32(self.length)))
            bias[first:last] = factor[first:last] * each.bias + offset[first:last]
        self.trained[t].append(level_of(plan.first_node, weights, bias, self.n_features))
        self.done = {}

    def _scaling(self, t: int) -> tuple[ndarray, ndarray]:
        """Factors and offsets of the scores of a tree's labels, by which `--propensity` lowers the
        probabilities of all but the rarest. Raised ones could come to 1, above which a tree tells
        none apart.
        """
        settings, n = self.settings, len(self.examples.label_offsets) - 1
        weight = inverse_propensity(self.counts, n, settings.propensity_a, settings.propensity_b)[
            self.plans[t].labels
        ]
        return self.objective.scaled_scores(
            (np.maximum(weight, 1) / max(weight.max(), 1)) ** (settings.propensity or 0.0)
        )

    def give_up(self) -> None:
        """The run ends before its time: of a tree whose last level is under way the labels that are
        trained so far are kept.
        """
        if self.level < len(self.levels) and self.is_of_labels(self.level) and self.done:
            self.finish_level(self.level)

    def is_of_labels(self, level: int) -> bool:
        """Whether the nodes of a level are labels."""
        t, plan = self.levels[level]
        return plan is self.plans[t].levels[-1]

    def memory(self, keeps_best: bool) -> MemoryPlan:
        """What a run needs."""
        return plan_memory({"threads": self.workers})

    def trees(self) -> list[LabelTree]:
        """The trees that are trained to the end."""
        return [
            LabelTree(levels, plan.labels)
            for levels, plan in zip(self.trained, self.plans, strict=True)
            if len(levels) == len(plan.levels)
        ]

    def arrays(self) -> dict[str, ndarray]:
        return label_tree.arrays_of(self.trees())

    def state(self) -> TrainState:
        state = TrainState()
        state.add(
            "tree.levels",
            lambda: [[tuple(level) for level in levels] for levels in self.trained],
            self._write_levels,
        )
        state.add_attribute("tree.loss", self, "loss")
        state.add(
            "tree.tiles",
            lambda: [(n, *each) for n, each in sorted(self.done.items())],
            self._write_tiles,
        )
        return state

    def _write_levels(self, value: Any) -> None:
        self.trained = [[Level(*level) for level in levels] for levels in value]

    def _write_tiles(self, value: Any) -> None:
        self.done = {n: Trained(*each) for n, *each in value}
        if self.level < len(self.levels):
            self.prepare(self.level)


class TreeTrainer:
    """Trains sparse weights, a level of a tree after another; see `TreeTraining`.

    features   csr_matrix float32 (n_rows, n_features), scaled
    counts     int64 (n_labels,)
    by_others  the tiles are trained elsewhere
    weights    (n_rows,): how much each row counts; None for all alike
    """

    def __init__(
        self,
        objective: Objective,
        settings: ClassifySettings,
        features: csr_matrix,
        labels: Labels,
        counts: ndarray,
        progress: Progress,
        *,
        by_others: bool,
        weights: ndarray | None = None,
    ) -> None:
        examples = examples_of(features, labels, weights)
        optimizer = update_rule(settings, examples, features.shape)
        trees = plans(features, examples, counts, settings, progress)
        self.strategy = TreeTraining(
            objective, settings, features, examples, optimizer, counts, trees, by_others=by_others
        )
        self.loss_unit = self.strategy.loss_unit
        self.optimizer_state: dict[str, ndarray] = {}

    def memory(self, keeps_best: bool) -> MemoryPlan:
        return self.strategy.memory(keeps_best)

    def train(
        self,
        history: History,
        plan: MemoryPlan,
        checkpoints: Checkpoints | None,
        wrap: Wrap | None,
    ) -> trainer.Outcome:
        """Train the classifier of the history, by the strategy or by what `wrap` makes of it."""
        strategy = self.strategy
        training: Strategy = wrap(strategy) if wrap else strategy
        if checkpoints is not None:
            identify(checkpoints, history.classifier, strategy.examples, training)
        n_levels = len(strategy.levels)

        def after_level(level: int, tally: Tally, seconds_passed: float) -> bool:
            strategy.finish_level(level)
            if level + 1 < n_levels:
                strategy.prepare(level + 1)
            return False

        schedule = Schedule(
            float(strategy.settings.learning_rate or 0),
            training.n_chunks,
            strategy.n_nodes / n_levels,
            n_levels,
            shape="constant",
            unit="nodes" if n_levels > len(strategy.plans) else "labels",
        )
        strategy.prepare(0)
        outcome = trainer.run(
            training, schedule, history.progress, after_level, checkpoints=checkpoints, plan=plan
        )
        if outcome.interrupted_by is not None:
            self._give_up(outcome.interrupted_by, history.progress)
        self._summarise(outcome)
        to_the_end(lambda: self._hand_over(history, outcome))
        return outcome

    def _give_up(self, interrupted_by: BaseException, progress: Progress) -> None:
        """Keep what is trained so far; raise the interruption if that is nothing."""
        to_the_end(self.strategy.give_up)
        if not self.strategy.trees():
            raise interrupted_by
        progress.note(
            "interrupted: the model and its loss are of the labels and trees trained so far"
        )

    def _summarise(self, outcome: trainer.Outcome) -> None:
        """Count epochs over the data in place of levels. There is no curve, because each twentieth
        of the run has other labels.
        """
        strategy = self.strategy
        n = strategy.n_labelled
        outcome.epochs = float(strategy.settings.epochs)
        outcome.final_loss = strategy.loss
        outcome.tally = Tally(strategy.loss * n, n, round(n * outcome.epochs))
        outcome.curve = []

    def _hand_over(self, history: History, outcome: trainer.Outcome) -> None:
        """Give the classifier its trees."""
        history.classifier.arrays |= self.strategy.arrays()
        history.classifier.parameters_changed()
        if history.is_wanted:
            history.note(int(outcome.epochs) - 1, outcome.final_loss, outcome.seconds)
