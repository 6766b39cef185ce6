"""The task of word vectors from Python: `SkipGram`, which trains; of token lists, a transformer for
scikit-learn.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from embedx import parameters
from embedx.errors import EmbedxError, SettingError, choice
from embedx.graphs.graph import as_graph
from embedx.graphs.settings import GraphSettings
from embedx.runtime.progress import python_progress
from embedx.settings import settings_of
from embedx.skipgram.configuration import configure
from embedx.skipgram.layers import varying_defaults
from embedx.skipgram.reading import read_corpora
from embedx.skipgram.run import Callback, WordVectorsRun
from embedx.skipgram.settings import SkipGramSettings, StartSettings
from embedx.text.encode import Corpora
from embedx.text.settings import PhraseSettings, TextSettings, VocabularySettings
from embedx.text.sources import text_defaults
from embedx.training import life
from embedx.training.outcome import Outcome
from embedx.vectors import gensim_names
from embedx.vectors.model import WordVectors

if TYPE_CHECKING:
    from typing import Unpack

    from embedx.skipgram.parameters import SkipGramParameters

SETTINGS_CLASSES = (
    SkipGramSettings,
    TextSettings,
    VocabularySettings,
    PhraseSettings,
    StartSettings,
    GraphSettings,
)
FIELDS = parameters.fields_of(*SETTINGS_CLASSES, is_of_words=True)
# Defaults in the signature: None if it depends on the objective, the architecture or the data.
PARAMETER_DEFAULTS = {
    name: None if name in parameters.objective_settings() | varying_defaults() else field.default
    for name, field in FIELDS.items()
}
CONTAINERS = ("default", "pandas", "polars")  # what `transform` returns
OTHER_PARAMETERS = ("objective", "cache_dir", "verbose")  # beside the settings


class SkipGram:
    """Word vectors from Python: `SkipGram(objective="ns",
    dim=100).fit("corpus.txt").model.most_similar("city")`.

    Takes every setting of `embedx train` by name, and gensim's names of some: vector_size, size,
    negative, workers, alpha (which asks for gensim's optimiser, "sgd"), iter, max_final_vocab, sg,
    hs and cbow_mean. None stands for the default. `fit` accepts what the command line does, or an
    iterable of token lists. On token lists it is a scikit-learn transformer: `transform` returns
    the mean of each list's word vectors.

    objective  None: ns, but hs for sessions, and that of the model in `start`
    cache_dir  where encoded text is kept; by default as `embedx train` does
    verbose    whether to report progress on standard error
    """

    # Of the last `fit`.
    outcome: Outcome
    _model: WordVectors
    # The model of `start`, which is read once.
    _start_model: WordVectors | None

    @parameters.python_names()
    def __init__(
        self,
        objective: str | None = None,
        *,
        cache_dir: str | Path | None = None,
        verbose: bool = False,
        **settings: "Unpack[SkipGramParameters]",
    ) -> None:
        parameters.check_names(
            "SkipGram",
            settings,
            [*FIELDS, *parameters.GENSIM, *parameters.SWITCHES],
            parameters.INSTEAD_OF_GENSIM,
        )
        self.cache_dir = Path(cache_dir) if cache_dir else None
        self.verbose = verbose
        given: dict[str, Any] = dict(settings)
        if objective is not None:
            given["objective"] = objective
        given = parameters.without_gensim_names(given)
        # None stays: `set_params` may name other data, whose default is another one.
        self._params = {"objective": None, **given, "cache_dir": cache_dir}
        if verbose:
            self._params["verbose"] = verbose
        self._options = parameters.plain_settings(self._params, FIELDS)
        self.config = configure(self._params["objective"], self._options)
        self._start_model = None if self.config.start is None else self.config.start.model

    __init__.__signature__ = parameters.signature(  # type: ignore[attr-defined]
        {"objective": None}, PARAMETER_DEFAULTS | {"cache_dir": None, "verbose": False}
    )

    # Type checkers know which attributes there are.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if hasattr(type(self), name):
                # A property's own error led here.
                return object.__getattribute__(self, name)
            raise gensim_names.missing(self, name, gensim_names.OF_TRAINING)

    def __repr__(self) -> str:
        given = {name: value for name, value in self._params.items() if value is not None}
        return f"SkipGram({', '.join(f'{name}={value!r}' for name, value in given.items())})"

    # ---- training

    @property
    def model(self) -> WordVectors:
        """The trained word vectors. Raises scikit-learn's NotFittedError before `fit`."""
        if not self.__sklearn_is_fitted__():
            raise _not_fitted()("this SkipGram is not fitted yet; call fit first")
        return self._model

    @parameters.python_names()
    def fit(
        self, corpora: Corpora, y: object = None, *, callbacks: Iterable[Callback] = ()
    ) -> Self:
        """Train; the result is `self.model`. Raises `EmbedxError`. Ctrl-C keeps the model so far
        and is raised again. Raises `DivergedError` when training diverges even at lower learning
        rates; `self.model` is then the last good one, if any.

        corpora    files, patterns, directories, URLs or names of corpora, one or a list, or token
                   lists
        y          ignored
        callbacks  each is called with an `EpochEnd` after every epoch; training ends when one
                   returns True
        """
        names: Sequence[object] = []
        if isinstance(corpora, str | Path):
            names = [corpora]
        elif isinstance(corpora, Sequence):
            names = corpora
        files = [str(name) for name in names if isinstance(name, str | Path)]
        defaults = text_defaults(files, self._options)
        self.config = configure(
            self._params["objective"], self._options, defaults=defaults, model=self._start_model
        )
        return self._train(corpora, callbacks)

    @parameters.python_names()
    def partial_fit(
        self, corpora: Corpora, y: object = None, *, callbacks: Iterable[Callback] = ()
    ) -> Self:
        """Continue training with more text, as `start` does: words of the model keep their vectors,
        new words and counts are added. The first call is `fit`.
        """
        if not self.__sklearn_is_fitted__():
            return self.fit(corpora, callbacks=callbacks)
        of_model = {"start", "vocab", *settings_of(PhraseSettings)}
        options = {name: value for name, value in self._options.items() if name not in of_model}
        self.config = configure(
            self.config.objective.name, options | {"start": "the model before"}, model=self._model
        )
        return self._train(corpora, callbacks)

    def _train(self, corpora: Corpora, callbacks: Iterable[Callback]) -> Self:
        """The stages of a run, as in `embedx.tasks.run`, without checkpoints and an output."""
        corpora = as_graph(corpora, self.config.graph)
        with (
            python_progress(self.verbose) as progress,
            read_corpora(corpora, self.config, progress, self.cache_dir) as corpus,
        ):
            run = WordVectorsRun.resolved(corpus, self.config, progress)
            run.callbacks = tuple(callbacks)
            trained = life.train_model(run)
        self._model = trained.model
        self.outcome = trained.outcome.without_state()
        self.outcome.raise_reason()
        return self

    @parameters.python_names()
    def save(self, folder: str | Path, overwrite: bool = False) -> Path:
        """Write the model folder."""
        return self.model.save(folder, overwrite)

    # ---- by scikit-learn's conventions

    def transform(self, documents: Iterable[Sequence[str]]) -> Any:
        """float32 (documents, dim): the mean of the vectors of each document's tokens; zeros where
        none has one. A data frame after `set_output`.
        """
        return self._as_output(self.model.mean_vectors(documents), documents)

    def fit_transform(
        self, documents: Iterable[Sequence[str]], y: object = None, **fit_params: Any
    ) -> Any:
        """`fit`, then `transform` of the same token lists."""
        if isinstance(documents, Iterator):  # which is gone through twice
            documents = list(documents)
        return self.fit(documents, y, **fit_params).transform(documents)

    def set_output(self, *, transform: str | None = None) -> Self:
        """What `transform` returns: "default", an array, or a data frame of "pandas" or "polars".
        None changes nothing.
        """
        if transform is not None and transform not in CONTAINERS:
            raise SettingError("transform", transform, choice(transform, CONTAINERS))
        if transform is not None:
            # The name by which scikit-learn's `clone` copies it.
            self._sklearn_output_config = {"transform": transform}
        return self

    def _as_output(self, means: np.ndarray, documents: object) -> Any:
        """The rows of `transform` in the container that `set_output`, or scikit-learn's own
        configuration, names.
        """
        sklearn = sys.modules.get("sklearn")
        default = sklearn.get_config()["transform_output"] if sklearn else "default"
        config = getattr(self, "_sklearn_output_config", {"transform": default})
        columns = self.get_feature_names_out()
        if config["transform"] == "pandas":
            # The index of a series of documents; that of a list is a method.
            index = getattr(documents, "index", None)
            rows = None if callable(index) else index
            return import_module("pandas").DataFrame(means, columns=columns, index=rows)
        if config["transform"] == "polars":
            return import_module("polars").DataFrame(means, schema=columns.tolist())
        return means

    def get_feature_names_out(self, input_features: object = None) -> np.ndarray:
        """Names of the columns of `transform`."""
        return np.array([f"skipgram{k}" for k in range(self.model.vector_size)], object)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The settings that were given; others, and those that are None, have their defaults."""
        return dict(self._params)

    def set_params(self, **params: Any) -> Self:
        """Change any settings that `SkipGram` takes. Raises the errors of the constructor, and then
        changes nothing.
        """
        known = [*OTHER_PARAMETERS, *FIELDS, *parameters.GENSIM, *parameters.SWITCHES]
        parameters.check_names("SkipGram", params, known, parameters.INSTEAD_OF_GENSIM)
        vars(self).update(
            vars(type(self)(**{**self._params, **parameters.without_gensim_names(params)}))
        )
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_model")

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        repeats = self.config.settings.threads == 1 or self.config.settings.deterministic
        return Tags(
            estimator_type="transformer",
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(),
            input_tags=InputTags(two_d_array=False),
            non_deterministic=not repeats,
        )


def _not_fitted() -> type[Exception]:
    """An `EmbedxError` that is scikit-learn's NotFittedError, if that is there to be caught."""
    theirs = getattr(sys.modules.get("sklearn.exceptions"), "NotFittedError", None)
    return type(
        "NotFittedError",
        (EmbedxError, *((theirs,) if theirs else (ValueError, AttributeError))),
        {},
    )
