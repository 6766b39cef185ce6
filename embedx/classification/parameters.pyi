"""Types of parameters, from the declarations of settings.

`python -m tests.parameters_stub` writes this file.
"""

from collections.abc import Mapping
from os import PathLike
from typing import Any, Literal, TypedDict


class ClassifierParameters(TypedDict, total=False):
    epochs: int | None
    learning_rate: float | None
    sampler: Literal["search", "unigram", "uniform", "adversarial", "all", "path"] | None
    deterministic: bool | None
    time_budget: float | str | None
    labels: Literal["all", "first", "lowest-id", "one"] | None
    scaling: Literal["none", "l2", "column-max", "tf-idf", "standard"] | None
    hidden: int | None
    posterior: Literal["point", "gaussian"] | None
    prior_variance: float | None
    weights: Literal["dense", "sparse", "tree"] | None
    label_features: Literal["positives", "all"] | None
    weight_threshold: float | None
    leaf_size: int | None
    arity: int | None
    beam: int | None
    trees: int | None
    propensity: float | None
    propensity_a: float | None
    propensity_b: float | None
    bias: Literal["zero", "frequency", "none"] | None
    batch_size: int | str | None
    optimizer: Literal["adagrad", "rowwise-adagrad", "sgd", "mixture", "lbfgs", "dcd"] | None
    initial_gradient: float | None
    schedule: Literal["linear", "constant", "inverse-sqrt", "inverse"] | None
    decay: float | None
    decay_every: int | None
    class_weight: Literal["balanced"] | Mapping[Any, float] | None
    gradient_scale: Literal["mean", "sum"] | None
    l2: float | None
    max_norm: float | None
    replacement: bool | None
    validation: str | float | None
    patience: int | None
    calibration: float | None
    neighbours: str | int | None
    anchored: bool | None
    max_iterations: int | None
    tolerance: float | None
    scored_fraction: float | None
    clusters: int | None
    candidate_fraction: float | None
    min_score: float | None
    min_coefficient: float | None
    warm_up: float | None
    sampler_exponent: float | None
    tree_features: int | None
    tree_l2: float | None
    uniform_share: float | None
    negatives: int | None
    score_l2: float | None
    hierarchy: Literal["clusters", "huffman"] | None
    augment: Literal["utility", "noise"] | None
    local_decay: float | None
    threshold: float | None
    double_sum: Literal["raman", "proposed"] | None
    loss: Literal["margin", "softmax", "logistic", "squared-hinge"] | None
    smoothing: float | None
    blocks: int | None
    rescore: bool | None
    slack: float | None
    iterations: int | None
    keep_hits: bool | None
    local_rate: float | None
    entropy: bool | None
    score_function: Literal["inner-product", "euclidean"] | None
    random_state: object
    n_jobs: int | None
    verbose: bool

class ClassifyParameters(TypedDict, total=False):
    epochs: int | None
    learning_rate: float | None
    sampler: Literal["search", "unigram", "uniform", "adversarial", "all", "path"] | None
    threads: int | None
    deterministic: bool | None
    time_budget: float | str | None
    seed: int | None
    labels: Literal["all", "first", "lowest-id", "one"] | None
    unseen: Literal["keep", "drop"] | None
    scaling: Literal["none", "l2", "column-max", "tf-idf", "standard"] | None
    hidden: int | None
    pretrained: str | PathLike[str] | None
    score: Literal["inner-product", "euclidean"] | None
    posterior: Literal["point", "gaussian"] | None
    prior_variance: float | None
    weights: Literal["dense", "sparse", "tree"] | None
    label_features: Literal["positives", "all"] | None
    weight_threshold: float | None
    leaf_size: int | None
    arity: int | None
    beam: int | None
    trees: int | None
    propensity: float | None
    propensity_a: float | None
    propensity_b: float | None
    bias: Literal["zero", "frequency", "none"] | None
    batch_size: int | str | None
    optimizer: Literal["adagrad", "rowwise-adagrad", "sgd", "mixture", "lbfgs", "dcd"] | None
    initial_gradient: float | None
    schedule: Literal["linear", "constant", "inverse-sqrt", "inverse"] | None
    decay: float | None
    decay_every: int | None
    class_weight: Literal["balanced"] | None
    gradient_scale: Literal["mean", "sum"] | None
    l2: float | None
    max_norm: float | None
    replacement: bool | None
    validation: str | float | None
    validation_labels: str | None
    patience: int | None
    calibration: float | None
    neighbours: str | int | None
    anchored: bool | None
    max_iterations: int | None
    tolerance: float | None
    word_ngrams: int | None
    char_ngrams: str | None
    min_ngram_count: int | None
    buckets: int | None
    tokenizer: Literal["whitespace", "words"] | None
    lowercase: bool | None
    min_count: int | None
    label_prefix: str | None
    text_column: str | None
    label_column: str | None
    id_column: str | None
    label_separator: str | None
    feature_columns: str | None
    header: Literal["yes", "no"] | None
    on_bad_record: Literal["error", "skip"] | None
    scored_fraction: float | None
    clusters: int | None
    candidate_fraction: float | None
    min_score: float | None
    min_coefficient: float | None
    warm_up: float | None
    sampler_exponent: float | None
    tree_features: int | None
    tree_l2: float | None
    uniform_share: float | None
    negatives: int | None
    score_l2: float | None
    hierarchy: Literal["clusters", "huffman"] | None
    augment: Literal["utility", "noise"] | None
    local_decay: float | None
    threshold: float | None
    double_sum: Literal["raman", "proposed"] | None
    loss: Literal["margin", "softmax", "logistic", "squared-hinge"] | None
    smoothing: float | None
    blocks: int | None
    rescore: bool | None
    slack: float | None
    iterations: int | None
    keep_hits: bool | None
    local_rate: float | None
    entropy: bool | None
