"""What eval uses of embedx beside the command line, each name with where it is: the one file to adapt when these move.

Nothing is imported before it is asked for, because start-up is one of the things measured.
"""

from importlib import import_module
from typing import Any

_HOME = {
    "SkipGram": "embedx:SkipGram",
    "WordVectors": "embedx:WordVectors",
    "load": "embedx:load",
    "skipgram": "embedx.skipgram",
    "collapsed": "embedx.collapsed",
    "classify": "embedx.classify",
    "ClassifySettings": "embedx.classify:ClassifySettings",
    "Trained": "embedx.classify:Trained",
    "Classifier": "embedx.classifier:Classifier",
    "objectives": "embedx.objectives",
    "Search": "embedx.objectives.contract:Search",
    "Labeled": "embedx.labeled.data:Labeled",
    "Labels": "embedx.labeled.data:Labels",
    "Known": "embedx.labeled.known:Known",
    "read": "embedx.labeled.read:read",
    "read_training": "embedx.labeled.read:read_training",
    "chosen_labels": "embedx.labeled.rules:chosen_labels",
    "known_labels": "embedx.labeled.rules:known_labels",
    "scaled": "embedx.labeled.rules:scaled",
    "heldout": "embedx.evaluation.heldout",
    "words": "embedx.evaluation.words",
    "LabelMetrics": "embedx.evaluation.labels:LabelMetrics",
    "TextSettings": "embedx.settings:TextSettings",
    "VocabularySettings": "embedx.settings:VocabularySettings",
    "option_name": "embedx.settings:option_name",
    "Silent": "embedx.progress:Silent",
    "encode": "embedx.text.encode:encode",
    "select": "embedx.text.vocabulary:select",
    "hold_out": "embedx.text.heldout:hold_out",
    "CHUNK": "embedx.text.heldout:CHUNK",
    "END_OF_SENTENCE": "embedx.text.tokenizer:END_OF_SENTENCE",
    "recipe_defaults": "embedx.text.sources:recipe_defaults",
    "cache_home": "embedx.compiled:cache_home",
    "DivergedError": "embedx.errors:DivergedError",
    "Outcome": "embedx.engine.trainer:Outcome",
    "Tally": "embedx.engine.trainer:Tally",
    "usable_cores": "embedx.engine.trainer:usable_cores",
    "aligned_zeros": "embedx.engine.simd:aligned_zeros",
    "build_index": "embedx.search.index:build",
    "candidates_of": "embedx.search.look:candidates_of",
    "new_probe": "embedx.search.look:new_probe",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = _HOME[name].partition(":")
    found = import_module(module)
    return getattr(found, attribute) if attribute else found
