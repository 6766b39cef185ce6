"""The memory that a classifier takes while it is trained, validated and tested, reckoned before any of it is allocated."""

from typing import Any

import numpy as np

from embedx import optimizers
from embedx.classification import clustering, tree_training
from embedx.classification.classifier import COPIES_OF_SCORES, COPIES_OF_SPARSE, COPIES_OF_SUMS, memory_of_scores
from embedx.classification.settings import ClassifySettings
from embedx.classification.strategies import memory_of_step
from embedx.classification.strategies_sparse import examples_of_rows
from embedx.classification.weights import is_label_by_label, is_sparse_linear
from embedx.engine import sparse_rows
from embedx.engine.examples import Examples, examples_of
from embedx.errors import EmbedxError
from embedx.kernels.simd import padded
from embedx.labeled.data import Labeled, Labels
from embedx.objectives.contract import Objective
from embedx.samplers.contract import Sampler
from embedx.storage.disk import amount
from embedx.training import memory
from embedx.training.memory import Plan

BYTES_PER_LABEL = 80  # of counts, of what noise is drawn by, and while that is made
KEPT = 2  # weights of a label above the threshold, for each value of an example: EURLex-4.3K 3, categories of Wikipedia 1.5
BYTES_PER_KEPT = 32  # while a level is put together
BYTES_PER_SAVED = 32  # of numbers, while those above the threshold are looked for


def check_labels(n_labels: int) -> None:
    """Raise `EmbedxError` if counts of the labels, and what draws by them, will not fit: ids may be anything."""
    need, have = BYTES_PER_LABEL * n_labels, memory.available_memory()
    if need > have:
        raise EmbedxError(
            f"{n_labels:,} labels need {amount(need)} to be counted, more than the {amount(have)} there are; ids are numbered "
            "from 0, so see whether the largest is one"
        )


def memory_plan(
    data: Labeled,
    features: Any,
    labels: Labels,
    objective: Objective,
    settings: ClassifySettings,
    sampler: Sampler,
    n_validated: int,
    n_tested: int,
    *,
    by_others: bool = False,
) -> Plan:
    """What a run will take here; its labels may be trained by others. Raises `EmbedxError` if it will not fit, before anything
    is allocated.

    Scoring copies the weights; validation keeps the best ones beside them. What the optimiser keeps is let go before testing.
    """
    n_rows, threads = objective.n_rows(data.n_labels), int(settings.threads or 1)
    is_sum = objective.log_label_probability(np.zeros(1)) is not None
    of_sums = COPIES_OF_SPARSE if settings.weights == "sparse" else COPIES_OF_SUMS
    of_scores = of_sums if is_sum else COPIES_OF_SCORES
    validating, testing = (memory_of_scores(n, n_rows, threads, of_scores) for n in (n_validated, n_tested))
    if is_label_by_label(settings, objective):
        return _of_labels(data, settings, 0 if by_others else threads, max(validating, testing))
    if settings.weights == "sparse":
        return _of_rows(data, settings, examples_of(features, labels), sampler, n_rows, validating, testing)
    dim = (settings.hidden or data.n_features) + 1
    copies = optimizers.OPTIMIZERS[str(settings.optimizer)].copies
    weights = 4 * (padded(dim) * (n_rows + data.n_features) if settings.hidden else dim * n_rows)
    of_sampler = sampler.memory(len(data), data.n_features)
    needs = {"weights": weights, "optimiser": (copies - 1) * weights, "validation": 0}
    if n_validated:
        needs["validation"] = 2 * weights + validating
    if settings.optimizer != "lbfgs" and not is_sparse_linear(settings, data):
        needs["a step"] = memory_of_step(settings, sampler, len(data), n_rows, dim)
    later = {"testing": max(2 * weights + testing - sum(needs.values()), 0) if n_tested else 0}
    need, have = sum(needs.values()) + later["testing"], memory.available_memory()
    if need <= have < need + of_sampler:
        raise EmbedxError(
            f"--sampler {sampler.name} needs {amount(of_sampler)} beside the {amount(need)} of the weights, more than "
            f"the {amount(have)} there are; --sampler uniform needs none"
        )
    advice = (
        ""
        if settings.hidden or not data.is_sparse
        else f"add --hidden 100, which needs {amount(4 * copies * 101 * (n_rows + data.n_features))}; "
    )
    less = ""
    if copies == 2 and not n_tested:
        less = "--optimizer sgd needs half; "
    elif copies > 2:
        less = "--optimizer adagrad needs far less; "
    what = f"{n_rows:,} rows × {dim:,} weights with --optimizer {settings.optimizer}"
    remedy = f"{advice}{less}or drop rare labels and features"
    copy = 0 if settings.optimizer == "lbfgs" else copies * weights
    plan = memory.plan_memory(needs | {"noise": of_sampler}, copy, later=later)
    plan.check(what, remedy)
    return plan


def _of_rows(
    data: Labeled, settings: ClassifySettings, examples: Examples, sampler: Sampler, n_rows: int, validating: int, testing: int
) -> Plan:
    """What a run with sparse rows that are trained together will take. Raises `EmbedxError` if it will not fit."""
    support = sparse_rows.support_of(examples, examples_of_rows(examples, sampler, n_rows), data.n_features)
    n_slots = int(support.slots_by_row(settings.bias != "none")[-1])
    copies = optimizers.OPTIMIZERS[str(settings.optimizer)].copies
    needs = {"weights": 8 * n_slots, "optimiser": 4 * (copies - 1) * n_slots, "validation": validating}
    later = {"saving": BYTES_PER_SAVED * int(support.of_row.sum()), "testing": testing}
    what = f"sparse weights of {n_rows:,} rows on {data.n_features:,} features"
    remedy = "drop rare labels and features"
    plan = memory.plan_memory(needs, 4 * copies * n_slots, later=later)
    plan.check(what, remedy)
    return plan


def _of_labels(data: Labeled, settings: ClassifySettings, threads: int, scoring: int) -> Plan:
    """What a run with sparse weights that are trained label by label will take. Raises `EmbedxError` if it will not fit.

    How many weights there will be is known when they are trained, and reckoned by how many there were on other data.
    """
    n, n_values = len(data), int(data.features.nnz)
    optimizer = optimizers.OPTIMIZERS[str(settings.optimizer)]
    n_seen = int((np.bincount(data.labels.ids, minlength=1) > 0).sum())
    kept = n_seen * min(KEPT * n_values / max(n, 1), data.n_features)
    is_tree = settings.weights == "tree"
    needs = {
        "threads": threads * tree_training.memory_of_thread(n, n_values, data.n_features, optimizer),
        "weights": kept * (BYTES_PER_KEPT + 8 * ((settings.trees if is_tree else 1) - 1)),
    }
    later = {
        "clustering": max(8 * clustering.MOST_FEATURES * data.n_labels - needs["weights"], 0) if is_tree else 0,
        "testing": 0 if is_tree else scoring,
    }
    what = f"sparse weights of {data.n_labels:,} labels on {data.n_features:,} features"
    plan = memory.plan_memory(needs, later=later)
    plan.check(what, "fewer --threads need less, or drop rare labels and features")
    return plan
