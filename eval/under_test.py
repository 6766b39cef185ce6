"""What eval uses of embedx beside the command line, each name with where it is: the one file to adapt when these move.

Nothing is imported before it is asked for, because start-up is one of the things measured.
"""

from importlib import import_module
from typing import Any

_MODULES = {
    "skipgram": "embedx.skipgram.task",
    "skipgram_engine": "embedx.engine.skipgram",
    "blocks": "embedx.engine.blocks",
    "gemm": "embedx.kernels.gemm",
    "subsampling": "embedx.text.subsampling",
    "collapsed": "embedx.skipgram.collapsed",
    "classification": "embedx.classification.task",
    "objectives": "embedx.objectives",
    "samplers": "embedx.samplers",
    "heldout": "embedx.evaluation.heldout",
    "words": "embedx.evaluation.words",
    "word_sets": "embedx.evaluation.word_sets",
    "word_report": "embedx.evaluation.word_report",
    "statistics": "embedx.evaluation.statistics",
    "distributed_words": "embedx.distributed.words",
}
_NAMES = {
    "embedx": "SkipGram WordVectors load",
    "embedx.skipgram.configuration": "configure",
    "embedx.kernels.compiled": "FAST_MATH",
    "embedx.text.vocabulary": "keep_probability kept_counts select",
    "embedx.classification.defaults": "new_objective",
    "embedx.classification.settings": "ClassifySettings",
    "embedx.classification.task": "TrainedClassifier",
    "embedx.classification.classifier": "Classifier",
    "embedx.labeled.data": "Labeled Labels",
    "embedx.labeled.schema": "DataSchema",
    "embedx.labeled.read": "read read_training",
    "embedx.labeled.rules": "chosen_labels known_labels scaled",
    "embedx.evaluation.labels": "LabelMetrics",
    "embedx.settings": "TextSettings VocabularySettings as_arguments",
    "embedx.training.progress": "Silent",
    "embedx.text.encode": "encode",
    "embedx.text.heldout": "hold_out PIECE",
    "embedx.text.tokenizer": "END_OF_SENTENCE",
    "embedx.text.sources": "recipe_defaults",
    "embedx.kernels.cache_home": "cache_home",
    "embedx.errors": "DivergedError",
    "embedx.training.trainer": "Outcome usable_cores",
    "embedx.training.strategy": "Tally",
    "embedx.distributed.server": "WorkerState",
    "embedx.distributed.worker": "ChunkRange Worker",
    "embedx.distributed.ray_backend": "Size",
    "embedx.training.memory": "n_bytes",
    "embedx.kernels.batch": "new_batch",
    "embedx.kernels.simd": "aligned_zeros",
    "embedx.search.spec": "SearchSpec",
    "embedx.search.index": "build_index",
    "embedx.search.query": "new_query_workspace",
    "embedx.engine.collapsed": "find_rows",
}
_HOME = {name: (module, "") for name, module in _MODULES.items()} | {
    name: (module, name) for module, names in _NAMES.items() for name in names.split()
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _HOME[name]
    found = import_module(module)
    return getattr(found, attribute) if attribute else found
