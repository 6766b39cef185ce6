"""The task of word vectors from Python: `SkipGram`, which trains; of token lists, a transformer for scikit-learn."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from embedx import objectives, samplers
from embedx.errors import EmbedxError
from embedx.settings import PhraseSettings, StartSettings, TextSettings, VocabularySettings, settings_of
from embedx.skipgram import task
from embedx.skipgram.configuration import configure
from embedx.skipgram.settings import SkipGramSettings
from embedx.text.encode import Corpora
from embedx.vectors.model import WordVectors


class SkipGram:
    """Word vectors from Python: `SkipGram(objective="ns", dim=100).fit("corpus.txt").model.most_similar("city")`.

    Takes every setting of `embedx train` by name. `fit` accepts what the command line does, or an iterable of token lists. Of
    token lists it is a transformer by scikit-learn's conventions, whose `transform` gives each the mean of its words' vectors.
    """

    def __init__(self, objective: str = "ns", *, cache_dir: str | Path | None = None, **options: Any) -> None:
        self._params = {"objective": objective, "cache_dir": cache_dir, **options}
        groups = [SkipGramSettings, TextSettings, VocabularySettings, PhraseSettings, StartSettings]
        groups += [objectives.find(objective).Settings, *(each.Settings for each in samplers.SAMPLERS.values())]
        known = {name for group in groups for name in settings_of(group)}
        if unknown := options.keys() - known:
            raise TypeError(f"SkipGram takes no {', '.join(sorted(unknown))}; its settings are {', '.join(sorted(known))}")
        self.config = configure(objective, options)
        self.cache_dir = Path(cache_dir) if cache_dir else None

    def __repr__(self) -> str:
        return f"SkipGram({', '.join(f'{name}={value!r}' for name, value in self._params.items() if value is not None)})"

    # ---- training

    def fit(self, corpora: Corpora, y: object = None, *, callbacks: Iterable[task.Callback] = ()) -> Self:
        """Train; the result is `self.model`. Raises `EmbedxError`. Ctrl-C keeps the model so far and is raised again; so is
        `DivergedError` when training diverges at lower rates too, with the model of what was last found good, if anything was.

        y          not looked at
        callbacks  each is called with an `EpochEnd` after every epoch; training ends when one returns True
        """
        trained = task.train(corpora, self.config, cache_dir=self.cache_dir, callbacks=callbacks)
        self.model, self.outcome = trained.vectors, trained.outcome.without_state()
        self.outcome.raise_reason()
        return self

    def save(self, folder: str | Path, overwrite: bool = False) -> Path:
        """Write the model folder."""
        return self.model.save(Path(folder), overwrite)

    # ---- by scikit-learn's conventions

    def transform(self, documents: Iterable[Sequence[str]]) -> np.ndarray:
        """float32 (documents, dim): the mean of the vectors of each document's tokens; zeros where none is a known word."""
        return self._fitted().mean_vectors(documents)

    def fit_transform(self, documents: Sequence[Sequence[str]], y: object = None, **fit_params: Any) -> np.ndarray:
        """`fit`, then `transform` of the same token lists."""
        return self.fit(documents, y, **fit_params).transform(documents)

    def get_feature_names_out(self, input_features: object = None) -> np.ndarray:
        """Names of the columns of `transform`."""
        return np.array([f"skipgram{k}" for k in range(self._fitted().vector_size)], dtype=object)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The settings that were given; others have their defaults."""
        return dict(self._params)

    def set_params(self, **params: Any) -> Self:
        """Change settings, any that `SkipGram` takes. Raises as making one does, and then changes nothing."""
        vars(self).update(vars(type(self)(**{**self._params, **params})))
        return self

    def _fitted(self) -> WordVectors:
        if not self.__sklearn_is_fitted__():
            raise EmbedxError("this SkipGram is not fitted yet; call fit first")
        return self.model

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model")

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        repeats = self.config.settings.threads == 1 or self.config.settings.deterministic
        return Tags(
            estimator_type="transformer", target_tags=TargetTags(required=False), transformer_tags=TransformerTags(),
            input_tags=InputTags(two_d_array=False), non_deterministic=not repeats,
        )  # fmt: skip
