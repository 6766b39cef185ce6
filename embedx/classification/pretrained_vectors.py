"""Word vectors of another model as the initial hidden layer of a classifier, `--pretrained`."""

import dataclasses

import numpy as np

from embedx.classification.settings import ClassifySettings
from embedx.errors import Setting, SettingError
from embedx.labeled.data import Labeled
from embedx.runtime.progress import Progress

# Feature ids of words, int64 (n,), and their vectors, float32 (n, dim).
Pretrained = tuple[np.ndarray, np.ndarray]


def pretrained_vectors(
    settings: ClassifySettings, data: Labeled, progress: Progress
) -> Pretrained | None:
    """The words that have vectors in the file of `--pretrained`, and these; None without a file.

    They are scaled by one factor, so that their elements are as large on average as those that a
    hidden layer starts from.
    """
    path = settings.pretrained
    if path is None:
        return None
    from embedx.vectors.model import load

    vocabulary = data.schema.vocabulary
    if vocabulary is None:
        raise SettingError("pretrained", path, "these features are not words", "leave it out")
    pretrained = load(path, progress)
    if settings.hidden not in (None, pretrained.vector_size):
        size = f"vectors of {pretrained.vector_size} dimensions for "
        remedy = ("leave ", Setting("hidden"), " out")
        raise SettingError("pretrained", path, (size, Setting("hidden", settings.hidden)), remedy)

    features = [k for k, word in enumerate(vocabulary) if word in pretrained]
    progress.note(f"{path}: vectors of {len(features):,} of {len(vocabulary):,} words")
    if not features:
        none = f"has none of the {len(vocabulary):,} words"
        check = ("check ", Setting("lowercase"), ", or give another file")
        raise SettingError("pretrained", path, none, check)

    rows = [pretrained.index(vocabulary[k]) for k in features]
    vectors = np.asarray(pretrained.vectors[rows], np.float32)
    return np.array(features), _scaled_as_hidden(vectors)


def with_width_of(pretrained: Pretrained | None, settings: ClassifySettings) -> ClassifySettings:
    """The settings, with the dimension of pretrained vectors as that of the hidden layer."""
    if pretrained is None:
        return settings
    _, vectors = pretrained
    return dataclasses.replace(settings, hidden=vectors.shape[1])


def _scaled_as_hidden(vectors: np.ndarray) -> np.ndarray:
    """Vectors by one factor, float32 (n, dim), so that the root of their mean square is that of
    numbers that are uniform within ±1/√dim.
    """
    dim = vectors.shape[1]
    size = np.sqrt(np.mean(np.square(vectors, dtype=np.float64)))
    return (vectors / (max(size, 1e-30) * np.sqrt(3 * dim))).astype(np.float32)
