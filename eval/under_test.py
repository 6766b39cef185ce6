"""What eval uses of embedx beside the command line, each name with where it is: the one file to adapt when these move.

Nothing is imported before it is asked for, because start-up is one of the things measured.
"""

from importlib import import_module
from typing import Any

_HOME = {
    "SkipGram": "embedx:SkipGram",
    "WordVectors": "embedx:WordVectors",
    "load": "embedx:load",
    "skipgram": "embedx.skipgram.task",
    "streaming": "embedx.skipgram.settings",
    "new_tables": "embedx.skipgram.tables:new_tables",
    "skipgram_engine": "embedx.engine.skipgram",
    "blocks": "embedx.engine.blocks",
    "gemm": "embedx.kernels.gemm",
    "FAST_MATH": "embedx.kernels.compiled:FAST_MATH",
    "subsampling": "embedx.text.subsampling",
    "kept_counts": "embedx.text.vocabulary:kept_counts",
    "SkipGramTask": "embedx.skipgram.run:Task",
    "collapsed": "embedx.skipgram.collapsed",
    "classification": "embedx.classification.task",
    "new_objective": "embedx.classification.defaults:new_objective",
    "ClassifySettings": "embedx.classification.settings:ClassifySettings",
    "TrainedClassifier": "embedx.classification.task:TrainedClassifier",
    "Classifier": "embedx.classification.classifier:Classifier",
    "objectives": "embedx.objectives",
    "samplers": "embedx.samplers",
    "Labeled": "embedx.labeled.data:Labeled",
    "Labels": "embedx.labeled.data:Labels",
    "DataSchema": "embedx.labeled.schema:DataSchema",
    "read": "embedx.labeled.read:read",
    "read_training": "embedx.labeled.read:read_training",
    "chosen_labels": "embedx.labeled.rules:chosen_labels",
    "known_labels": "embedx.labeled.rules:known_labels",
    "scaled": "embedx.labeled.rules:scaled",
    "heldout": "embedx.evaluation.heldout",
    "words": "embedx.evaluation.words",
    "word_sets": "embedx.evaluation.word_sets",
    "word_report": "embedx.evaluation.word_report",
    "statistics": "embedx.evaluation.statistics",
    "LabelMetrics": "embedx.evaluation.labels:LabelMetrics",
    "TextSettings": "embedx.settings:TextSettings",
    "VocabularySettings": "embedx.settings:VocabularySettings",
    "as_arguments": "embedx.settings:as_arguments",
    "Silent": "embedx.training.progress:Silent",
    "encode": "embedx.text.encode:encode",
    "select": "embedx.text.vocabulary:select",
    "hold_out": "embedx.text.heldout:hold_out",
    "PIECE": "embedx.text.heldout:PIECE",
    "END_OF_SENTENCE": "embedx.text.tokenizer:END_OF_SENTENCE",
    "recipe_defaults": "embedx.text.sources:recipe_defaults",
    "cache_home": "embedx.kernels.cache_home:cache_home",
    "DivergedError": "embedx.errors:DivergedError",
    "Outcome": "embedx.training.trainer:Outcome",
    "Tally": "embedx.training.strategy:Tally",
    "WorkerState": "embedx.distributed.server:WorkerState",
    "ChunkRange": "embedx.distributed.worker:ChunkRange",
    "Worker": "embedx.distributed.worker:Worker",
    "ClusterSize": "embedx.distributed.ray_backend:Size",
    "distributed_words": "embedx.distributed.words",
    "n_bytes": "embedx.training.memory:n_bytes",
    "usable_cores": "embedx.training.trainer:usable_cores",
    "new_batch": "embedx.kernels.batch:new_batch",
    "aligned_zeros": "embedx.kernels.simd:aligned_zeros",
    "SearchSpec": "embedx.search.spec:SearchSpec",
    "build_index": "embedx.search.index:build_index",
    "find_candidates_batch": "embedx.search.query:find_candidates_batch",
    "new_query_workspace": "embedx.search.query:new_query_workspace",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = _HOME[name].partition(":")
    found = import_module(module)
    return getattr(found, attribute) if attribute else found
