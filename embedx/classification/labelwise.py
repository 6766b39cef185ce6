"""Sparse weights, trained one label after another: all labels, or the nodes of a tree of labels
(label_tree.py).

One level is trained after another, a tile of nodes at a time; without a tree all labels are one
level.

The labels of a tree are clustered by the features of their examples (search/balanced_tree.py). A
node is trained on the examples that reach its parent: those with a label below the parent. A label
is also trained on those for which the levels above, already trained, put its parent among the
likeliest nodes, as they will be in prediction ("teacher-forcing" and "matcher-aware negatives" of
PECOS, Yu et al. 2022).

An epoch of the trainer is a level of a tree, and a chunk one of its tiles (engine/sparse_tiles.py).
A tile depends on the level above alone, so the result does not depend on the number of threads.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy import float32, float64, int32, int64, ndarray, uint64
from scipy.sparse import csr_matrix

from embedx.classification import label_tree
from embedx.classification.initial_values import initial_state
from embedx.classification.label_tree import LabelTree
from embedx.classification.settings import ALL_FEATURES, ClassifySettings
from embedx.classification.tree_plans import LevelPlan, TreePlan
from embedx.engine import sparse_tiles, tiles
from embedx.engine.examples import Csr, Examples, csr_of
from embedx.engine.loading import load_kernel
from embedx.engine.select import POSITIVES
from embedx.engine.sparse_levels import Level, TileWeights, best_nodes, level_of
from embedx.engine.tiles import TILE_WIDTH
from embedx.evaluation.labels import inverse_propensity
from embedx.kernels.random import stream_key
from embedx.labeled.scaling import input_length
from embedx.objectives.contract import Objective
from embedx.optimizers.contract import UpdateRule
from embedx.optimizers.dcd import DualCoordinateDescent
from embedx.runtime.memory import THREADS, MemoryPlan, plan_memory
from embedx.runtime.progress import Progress
from embedx.training.state import TrainState
from embedx.training.strategy import Strategy, Tally

# Number of examples that are searched in a tree at a time.
MATCHED_ROWS = 1 << 14
# Number of likeliest parents of labels that an example reaches, at most the beam; docs/constants.md
# compares it with others.
MATCHED_NODES = 5
NO_EXAMPLES = Csr(np.zeros(2, int64), np.zeros(0, int32))


class TrainedTile(NamedTuple):
    """The weights of a tile.

    feature, label, value  int32, int32 and float32 (n_weights,): weights that are kept; labels are
                           counted from the first of the tile
    bias                   float32 (n_labels,)
    loss                   of the last epoch
    """

    feature: ndarray
    label: ndarray
    value: ndarray
    bias: ndarray
    loss: float


class LevelSetup(NamedTuple):
    """What training level by level is made of, which is sent to the workers of a cluster.

    settings  resolved
    features  csr_matrix float32, of `examples`
    counts    int64 (n_labels,): number of occurrences of each label
    """

    objective: Objective
    settings: ClassifySettings
    features: csr_matrix
    examples: Examples
    optimizer: UpdateRule
    counts: ndarray
    tree_plans: Sequence[TreePlan]


class LabelwiseTraining(Strategy):
    """Trains the levels of trees, one after another.

    is_distributed  whether other machines train the tiles

    The guard is off: losses of different tiles are not comparable, and with dual coordinate descent
    a run cannot diverge.
    """

    is_guarded = False

    def __init__(self, setup: LevelSetup, *, is_distributed: bool = False) -> None:
        objective = setup.objective
        settings = setup.settings
        features = setup.features
        self.setup = setup
        self.objective = objective
        self.settings = settings
        self.features = features
        self.n_features = features.shape[1]
        self.optimizer = setup.optimizer
        self.counts = setup.counts
        self.tree_plans = setup.tree_plans
        self.is_distributed = is_distributed
        self.loss_unit = objective.loss_unit("row")
        self.is_dual = settings.optimizer == DualCoordinateDescent.name

        self._set_examples(features, setup.examples)
        self._set_level_plans()
        self.batch = min(int(settings.batch_size or 1), self.n_examples)
        self.constants = objective.constants(TILE_WIDTH, TILE_WIDTH)
        state = initial_state(settings, self.optimizer, self.examples, self.batch)
        self.initial_state = float32(state)
        n_workers = 0 if is_distributed else settings.n_threads
        self.workers = [self._new_worker() for _ in range(n_workers)]

        # The levels of each tree that are trained.
        self.trained_levels: list[list[Level]] = [[] for _ in self.tree_plans]
        # The trained tiles of the current level, by number.
        self.trained_tiles: dict[int, TrainedTile] = {}
        # Loss of the last epoch, summed over the labels that an example reached; mean over examples
        # and trees.
        self.loss_so_far = 0.0

    def _set_examples(self, features: csr_matrix, examples: Examples) -> None:
        """Set the examples, divided by the norm of the inputs, and their weights.

        The weights of labels are divided by the same norm after training, so that the penalty, the
        threshold and the default rates do not depend on the scale of the features.
        """
        has_weights = examples.weight.size > 0
        self.length = input_length(features, examples.weight if has_weights else None)
        self.examples = examples
        if self.length != 1:
            values = (examples.values / float32(self.length)).astype(float32)
            self.examples = examples._replace(values=values)
        self.n_examples = len(examples.label_offsets) - 1

        n_of_row = np.diff(examples.label_offsets)
        is_labelled = n_of_row > 0
        # The example of each label in `examples.label_ids`.
        self.example_of_label = np.repeat(np.arange(len(n_of_row), dtype=int32), n_of_row)
        self.n_labelled = max(int(np.count_nonzero(is_labelled)), 1)
        self.example_weights = examples.weight.astype(float64)
        # Sum of the weights of the examples with labels.
        self.labelled_weight = float(self.n_labelled)
        if has_weights:
            self.labelled_weight = float(self.example_weights[is_labelled].sum())

    def _set_level_plans(self) -> None:
        """Set the levels of all trees in the order of their training, and the place of each label
        among the leaves of each tree, -1 for a label that does not occur.
        """
        tree_plans = self.tree_plans
        # (number of the tree, plan of the level)
        self.level_plans = [
            (t, level) for t, tree in enumerate(tree_plans) for level in tree.levels
        ]
        self.n_chunks = max(len(level.tiles) for _, level in self.level_plans)
        self.n_nodes = sum(level.n_nodes for _, level in self.level_plans)
        self.place_of_label = np.full((len(tree_plans), len(self.counts)), -1, int32)
        for t, tree in enumerate(tree_plans):
            self.place_of_label[t, tree.labels] = np.arange(len(tree.labels))

    def tile_plan(self, n_members: int, lr: float, key: uint64) -> tiles.TilePlan:
        """The plan for a tile of a group of `n_members` examples."""
        settings = self.settings
        # Inputs are divided by their length, so that weights are as many times larger.
        l2 = self.optimizer.l2 / self.length**2
        sum_over = float(self.n_examples) if settings.gradient_scale == "sum" else 1.0
        c = 1 / (l2 * self.labelled_weight) if self.is_dual else 0
        # The penalty is one of the mean loss over all examples; that of a tile is over its members.
        l2_of_members = l2 * self.labelled_weight / max(n_members, 1)
        return tiles.TilePlan(
            self.batch,
            sum_over,
            settings.bias != "none",
            self.objective.traits.keeps_accidental_hits,
            POSITIVES[self.objective.positives],
            is_sparse=True,
            optimizer=self.optimizer._replace(l2=l2_of_members),
            constants=self.constants,
            epochs=int(settings.epochs or 1),
            lr=float32(lr),
            lr_falls=settings.schedule == "linear",
            threshold=float32(settings.weight_threshold),
            key=key,
            first_state=self.initial_state,
            # that of a tree is None
            positives_features_only=settings.label_features != ALL_FEATURES,
            c=float32(c),
        )

    def _new_worker(self) -> tiles.TileWorkspace:
        return tiles.new_workspace(
            self.n_examples,
            len(self.examples.values),
            self.n_features,
            self.batch,
            self.optimizer,
            is_dual=self.is_dual,
        )

    def compile(self, progress: Progress) -> None:
        self.kernel = sparse_tiles.train_tile_dual if self.is_dual else sparse_tiles.train_tile
        function = self.objective.dual_steps if self.is_dual else self.objective.coefficients
        groups = sparse_tiles.LabelGroups(NO_EXAMPLES, NO_EXAMPLES, np.zeros(1, float32))
        plan = self.tile_plan(1, 0.0, uint64(0))
        worker = self.workers[0] if self.workers else self._new_worker()
        arguments = (self.examples, groups, 0, 0, 0, plan, worker)
        self.functions = load_kernel(self.kernel, function, None, arguments, progress)

    # ---- a level

    @property
    def level_number(self) -> int:
        """The number of the current level; the number of levels when all are trained."""
        return sum(map(len, self.trained_levels))

    @property
    def loss(self) -> float | None:
        """The loss of the last epoch of each label; None until all labels are trained."""
        return self.loss_so_far if self.level_number == len(self.level_plans) else None

    def is_of_labels(self, level_number: int) -> bool:
        """Whether the nodes of a level are labels."""
        t, plan = self.level_plans[level_number]
        return plan is self.tree_plans[t].levels[-1]

    def prepare(self, level_number: int) -> None:
        """Begin a level; called while no thread trains."""
        if self.is_distributed:
            return
        plan = self.level_plans[level_number][1]
        self._find_members(level_number)
        n_scores = float(np.diff(self.members.indptr) @ np.diff(plan.first_node))
        self.scores_of_row = n_scores / self.n_labelled
        self.bias = self._initial_biases(plan)

    def _initial_biases(self, plan: LevelPlan) -> ndarray:
        """Initial biases, float32 (n_nodes,): zero, or those that predict the frequency of each
        node among the examples that reach it.
        """
        biases = np.zeros(plan.n_nodes, float32)
        if self.settings.bias == "frequency":
            n_members = np.repeat(self._sizes(self.members), np.diff(plan.first_node))
            at_most = np.maximum(n_members - 0.5, 0.5)
            p = np.clip(self._sizes(self.positives), 0.5, at_most) / np.maximum(n_members, 1)
            noise = np.full(plan.n_nodes, 1 / plan.n_nodes)
            biases[:] = self.objective.initial_bias(p, noise)
        return biases

    def _sizes(self, examples: Csr) -> ndarray:
        """The summed weight of the examples of each row; without weights, their number."""
        sizes = np.diff(examples.indptr)
        if not self.example_weights.size:
            return sizes
        key = np.repeat(np.arange(len(sizes)), sizes)
        return np.bincount(key, self.example_weights[examples.indices], len(sizes))

    def _find_members(self, level_number: int) -> None:
        """Set `members`, the examples that reach each group of a level, and `positives`, those that
        have each node.
        """
        t, plan = self.level_plans[level_number]
        places = self.place_of_label[t, self.examples.label_ids]
        self.positives = csr_of(plan.node_of_place[places], self.example_of_label, plan.n_nodes)
        groups = [plan.node_above[places]]
        examples = [self.example_of_label]
        if self.is_of_labels(level_number) and self.trained_levels[t]:
            for start in range(0, self.n_examples, MATCHED_ROWS):
                nodes = self._matched_nodes(t, slice(start, start + MATCHED_ROWS))
                n_rows, n_best = nodes.shape
                rows = np.arange(start, start + n_rows, dtype=int32)
                groups.append(nodes.ravel())
                examples.append(np.repeat(rows, n_best))
        self.members = csr_of(np.concatenate(groups), np.concatenate(examples), plan.n_groups)

    def _matched_nodes(self, t: int, rows: slice) -> ndarray:
        """The likeliest nodes of the last level that is trained, int32 (n_rows, n_best)."""
        best = None
        for level in self.trained_levels[t]:
            best = best_nodes(
                self.features[rows],
                level,
                best,
                min(self.settings.beam, MATCHED_NODES),
                self.objective.log_label_probability,
                self.settings.n_threads,
            )
        assert best is not None
        return best.node

    def train_chunk(self, worker: Any, epoch: int, number: int, lr: float) -> Tally:
        bounds = self.level_plans[epoch][1].tiles
        if number >= len(bounds) or number in self.trained_tiles:
            return Tally()
        group, first, last = bounds[number]
        n_members = int(self.members.indptr[group + 1] - self.members.indptr[group])
        plan = self.tile_plan(n_members, lr, stream_key(self.settings.seed, epoch, number))
        groups = sparse_tiles.LabelGroups(self.members, self.positives, self.bias)
        loss, n_features = self.kernel(
            *self.functions, self.examples, groups, group, first, last, plan, worker
        )
        weights = sparse_tiles.kept_weights(groups, first, last, plan, worker, n_features)
        self.trained_tiles[number] = TrainedTile(*weights, self.bias[first:last].copy(), loss)

        # The loss of a row is the sum over the labels that it reaches; nodes above do not count.
        is_of_labels = self.is_of_labels(epoch)
        n_rows = n_members * (last - first) / self.scores_of_row
        return Tally(loss * is_of_labels, n_rows * is_of_labels, last - first)

    def finish_level(self, level_number: int) -> None:
        """Build a level from its trained tiles; nodes of other tiles get a probability near 0."""
        t, plan = self.level_plans[level_number]
        is_of_labels = self.is_of_labels(level_number)
        bias = np.full(plan.n_nodes, self._score_of_absent(), float32)
        factor = np.ones(plan.n_nodes)
        offset = np.zeros(plan.n_nodes)
        if is_of_labels:
            factor, offset = self._scaling(t)

        tile_weights = []
        for n, tile in sorted(self.trained_tiles.items()):  # a fixed order, whatever the threads
            self.loss_so_far += (
                is_of_labels * tile.loss / self.labelled_weight / len(self.tree_plans)
            )
            group, first, last = plan.tiles[n]
            value = tile.value * factor[first:last].astype(float32)[tile.label]
            value /= float32(self.length)
            tile_weights.append(TileWeights(group, first, tile.feature, tile.label, value))
            bias[first:last] = factor[first:last] * tile.bias + offset[first:last]
        threads = self.settings.n_threads
        level = level_of(plan.first_node, tile_weights, bias, self.n_features, threads)
        self.trained_levels[t].append(level)
        self.trained_tiles = {}

    def _score_of_absent(self) -> float:
        """The score that predicts half a positive among all examples."""
        half_a_positive = np.array([0.5 / max(len(self.example_of_label), 1)])
        return float(self.objective.initial_bias(half_a_positive, np.array([1.0]))[0])

    def _scaling(self, t: int) -> tuple[ndarray, ndarray]:
        """(factors, offsets) of the scores of a tree's labels, for ranking by `--propensity`.

        They lower the probabilities of all but the rarest labels. Raised ones could reach 1, where
        a tree cannot rank them.
        """
        settings = self.settings
        inverse = inverse_propensity(
            self.counts, self.n_examples, settings.propensity_a, settings.propensity_b
        )
        weight = inverse[self.tree_plans[t].labels]
        relative = np.maximum(weight, 1) / max(weight.max(), 1)
        return self.objective.scaled_scores(relative ** (settings.propensity or 0.0))

    def give_up(self) -> None:
        """Keep the labels trained so far, if the last level of a tree is being trained."""
        if (
            self.level_number < len(self.level_plans)
            and self.is_of_labels(self.level_number)
            and self.trained_tiles
        ):
            self.finish_level(self.level_number)

    # ---- results

    def memory(self, keeps_best: bool) -> MemoryPlan:
        """The memory that training needs."""
        return plan_memory({THREADS: self.workers})

    def label_trees(self) -> list[LabelTree]:
        """The trees that are completely trained."""
        return [
            LabelTree(levels, plan.labels)
            for levels, plan in zip(self.trained_levels, self.tree_plans, strict=True)
            if len(levels) == len(plan.levels)
        ]

    def arrays(self) -> dict[str, ndarray]:
        return label_tree.arrays_of(self.label_trees())

    def release(self) -> None:
        """Free what only training needs, once the classifier has the arrays."""
        self.trained_levels = [[] for _ in self.tree_plans]
        self.trained_tiles = {}
        self.workers = []
        self.members = self.positives = NO_EXAMPLES

    def state(self) -> TrainState:
        state = TrainState()
        state.add(
            "tree.levels",
            lambda: [[tuple(level) for level in levels] for levels in self.trained_levels],
            self._write_levels,
        )
        state.add_attribute("tree.loss", self, "loss_so_far")
        state.add(
            "tree.tiles",
            lambda: [(n, *tile) for n, tile in sorted(self.trained_tiles.items())],
            self._write_tiles,
        )
        return state

    def _write_levels(self, value: Any) -> None:
        self.trained_levels = [[Level(*level) for level in levels] for levels in value]

    def _write_tiles(self, value: Any) -> None:
        self.trained_tiles = {n: TrainedTile(*tile) for n, *tile in value}
        if self.level_number < len(self.level_plans):
            self.prepare(self.level_number)
