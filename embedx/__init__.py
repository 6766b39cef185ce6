"""embedx: trains word embeddings and classifiers with huge label sets, in one engine; the objective
of the output layer is an option.
"""

import os
from typing import TYPE_CHECKING, Any

# Compiled kernels are cached under a hash of the source files, and the help is generated from them.
if not (__file__.endswith(".py") and os.path.isfile(__file__)):
    raise ImportError(
        f"embedx needs its source files, which {os.path.dirname(__file__)} is without; install it"
        " with pip, unpacked and with its .py files"
    )

if TYPE_CHECKING:
    from embedx.api import (
        classify,
        compare,
        curves,
        evaluate,
        plot_curves,
        train,
        word_map,
        write_report,
    )
    from embedx.classification.classifier import Classifier
    from embedx.classification.estimator import SoftmaxClassifier as SoftmaxClassifier
    from embedx.errors import EmbedxError
    from embedx.graphs.graph import Graph
    from embedx.models import load
    from embedx.skipgram.estimator import SkipGram
    from embedx.skipgram.run import EpochEnd as EpochEnd
    from embedx.vectors.model import WordVectors

    __version__: str

__all__ = [  # what `import *` gets, without scikit-learn too
    "Classifier",
    "EmbedxError",
    "Graph",
    "SkipGram",
    "WordVectors",
    "classify",
    "compare",
    "curves",
    "evaluate",
    "load",
    "plot_curves",
    "train",
    "word_map",
    "write_report",
]

_HOME = {
    "Classifier": "classification.classifier",
    "EmbedxError": "errors",
    "EpochEnd": "skipgram.run",
    "Graph": "graphs.graph",
    "SkipGram": "skipgram.estimator",
    "SoftmaxClassifier": "classification.estimator",
    "WordVectors": "vectors.model",
    "load": "models",
    "plot_curves": "api",
    "word_map": "api",
    **dict.fromkeys(("train", "classify", "compare", "curves", "evaluate", "write_report"), "api"),
}


def __dir__() -> list[str]:
    return sorted([*_HOME, "__version__"])


if not TYPE_CHECKING:  # to whom everything would be known

    def __getattr__(name: str) -> Any:
        """Import on first use, so that reading a model imports numpy only, and `embedx --help`
        nothing.
        """
        if name == "__version__":
            from importlib.metadata import version

            return version("embedx")
        if name not in _HOME:
            raise AttributeError(f"module 'embedx' has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(f"embedx.{_HOME[name]}"), name)
