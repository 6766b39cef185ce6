"""Types of parameters, from the declarations of settings.

`python -m tests.parameters_stub` writes this file.
"""

from os import PathLike
from typing import Literal, TypedDict


class SkipGramParameters(TypedDict, total=False):
    epochs: int | None
    learning_rate: float | None
    sampler: Literal["search", "unigram", "uniform", "adversarial", "all", "path"] | None
    threads: int | None
    deterministic: bool | None
    time_budget: float | str | None
    seed: int | None
    architecture: Literal["skipgram", "cbow"] | None
    dim: int | None
    window: int | str | None
    optimizer: Literal["adagrad", "rowwise-adagrad", "bounded-adagrad", "sgd", "mixture", "rowwise-adagrad-momentum"] | None
    bias: Literal["frequency", "zero", "none"] | None
    block_size: int | None
    draws: int | None
    shuffle: bool | None
    subwords: str | None
    buckets: int | None
    heldout: float | str | None
    heldout_points: int | None
    tokenizer: Literal["whitespace", "words", "none"] | None
    lowercase: bool | None
    normalize: Literal["nfc", "nfkc"] | None
    format: Literal["auto", "text", "sessions"] | None
    json_field: str | None
    column: str | None
    edge_separator: Literal["tab", "comma", "semicolon", "bar", "blank"] | None
    on_bad_record: Literal["error", "skip"] | None
    on_bad_utf8: Literal["replace", "skip", "error"] | None
    vocab_memory: float | None
    min_count: int | None
    max_vocab: int | None
    vocab: str | PathLike[str] | None
    sample: float | None
    phrases: int | None
    phrase_scoring: Literal["word2phrase", "npmi"] | None
    phrase_threshold: float | None
    phrase_min_count: int | None
    connector_words: str | None
    phrase_memory: float | None
    start: str | PathLike[str] | None
    freeze: bool | None
    anchored: bool | None
    walks: int | None
    walk_length: int | None
    p: float | None
    q: float | None
    directed: bool | None
    weighted: bool | None
    node_types: str | None
    metapath: str | None
    scored_fraction: float | None
    clusters: int | None
    candidate_fraction: float | None
    min_score: float | None
    min_coefficient: float | None
    warm_up: float | None
    found: int | None
    refresh: int | None
    sampler_exponent: float | None
    tree_features: int | None
    tree_l2: float | None
    uniform_share: float | None
    negatives: int | None
    score_l2: float | None
    augment: Literal["utility", "noise"] | None
    local_decay: float | None
    threshold: float | None
    double_sum: Literal["raman", "proposed"] | None
    loss: Literal["margin", "softmax", "logistic", "squared-hinge"] | None
    smoothing: float | None
    tail: bool | None
    blocks: int | None
    slack: float | None
    keep_hits: bool | None
    local_rate: float | None
    entropy: bool | None
    vector_size: int | None
    size: int | None
    alpha: float | None
    negative: int | None
    workers: int | None
    iter: int | None
    max_final_vocab: int | None
    sg: Literal[0, 1]
    hs: Literal[0, 1]
    cbow_mean: Literal[1]
