"""Does a change of the code change a model? `python -m tests.frozen_models before.json`, change, `... after.json before.json`.

Trains a small model on one thread for each task, objective, sampler, optimizer and way of storing rows, and writes the SHA-256
of its arrays. With a second file, written before, prints each model that is no longer the same and exits with 1 if there is
one. Hashes depend on the machine and on the versions of numba and numpy; write both files on the same one.
"""

import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from embedx.classification import task as classification
from embedx.classification.settings import ClassifySettings
from embedx.errors import EmbedxError
from embedx.labeled.data import Labeled, Labels
from embedx.labeled.digits import digits as make_digits
from embedx.objectives import OBJECTIVES
from embedx.optimizers import taken_by
from embedx.optimizers.contract import LABELS, WORDS
from embedx.samplers import SAMPLERS, own_options
from embedx.settings import settings_of
from embedx.skipgram import collapsed
from embedx.skipgram import task as skipgram
from embedx.skipgram.configuration import configure

LEADING = ("softmax", "ns", "hs", "ar", "ove", "implicit", "ldgs")  # tried in more ways than the others
WORD_OPTIONS: list[dict[str, Any]] = [
    {"block_size": 0}, {"bias": "none"}, {"bias": "zero"}, {"window": 5, "block_size": 3}, {"shuffle": False},
    {"subwords": "1-3", "buckets": 30}, {"architecture": "cbow"}, {"architecture": "cbow", "subwords": "1-3", "buckets": 30},
    *({"optimizer": name} for name in taken_by(WORDS)),
]  # fmt: skip
LABEL_OPTIONS: list[dict[str, Any]] = [
    {"batch_size": 1}, {"l2": 0.001}, {"max_norm": 1.0}, {"labels": "one"}, {"bias": "none"},
    *({"optimizer": name} for name in taken_by(LABELS)),
]  # fmt: skip
SPARSE_OPTIONS: list[dict[str, Any]] = [
    {"weights": "dense"}, {"weights": "sparse"}, {"weights": "tree"}, {"hidden": 8}, {"weights": "sparse", "optimizer": "dcd"},
    {"weights": "dense", "optimizer": "dcd"}, {"weights": "dense", "labels": "one"},
]  # fmt: skip


def sentences() -> list[list[str]]:
    """60 sentences of 50 words, of 40 different ones."""
    rng = np.random.default_rng(5)
    common = 1 / np.arange(1, 41)
    return [[f"w{k}" for k in rng.choice(40, 50, p=common / common.sum())] for _ in range(60)]


def topics(n: int = 300, n_labels: int = 30) -> Labeled:
    """Documents about one to three topics, sparse."""
    rng = np.random.default_rng(4)
    labels = [rng.choice(n_labels, rng.integers(1, 4), replace=False) for _ in range(n)]
    x = np.zeros((n, 3 * n_labels), dtype=np.float32)
    for row, mine in zip(x, labels, strict=True):
        row[(np.repeat(mine, 2) * 3 + rng.integers(0, 4, 2 * len(mine))) % len(row)] = 1
    return Labeled(csr_matrix(x), Labels.of_rows(labels), n_labels)


def words(name: str, options: dict[str, Any]) -> dict[str, np.ndarray]:
    """Word vectors by the stream of pairs."""
    own = {"warm_up": 2.0} if "warm_up" in settings_of(OBJECTIVES[name].Settings) else {}
    few = {"dim": 8, "epochs": 3, "threads": 1, "window": 2, **own, **options}
    return skipgram.train(sentences(), configure(name, {"min_count": 1, "sample": 0.01, **few})).vectors.arrays


def counts(name: str, options: dict[str, Any]) -> dict[str, np.ndarray]:
    """Word vectors by counts of pairs."""
    own = {"dim": 8, "epochs": 3, "window": 2, "threads": 1, "min_count": 1, "sample": 0, **options}
    return collapsed.train(sentences(), configure(name, own, is_collapsed=True)).vectors.arrays


def labels(data: Labeled) -> Callable[[str, dict[str, Any]], dict[str, np.ndarray]]:
    def train(name: str, options: dict[str, Any]) -> dict[str, np.ndarray]:
        found = OBJECTIVES[name]
        own = {"warm_up": 1.0} if "warm_up" in settings_of(found.Settings) else {}
        few = {"epochs": 2, "threads": 1, **options}
        objective = found(found.Settings.from_options(own))
        settings = classification.resolved(ClassifySettings.from_options(few), objective, data)
        trained = classification.train(data, objective, settings, sampler_options=own_options(options))
        return trained.classifier.arrays

    return train


def cases() -> Iterator[tuple[str, Callable[..., dict[str, np.ndarray]], str, dict[str, Any]]]:
    """Every model: its task, how it is trained, its objective and its settings."""
    digits, _ = make_digits()
    dense, sparse = labels(digits.rows(np.arange(400))), labels(topics())
    for name, objective in OBJECTIVES.items():
        is_leading = name in LEADING
        samplers = [each for each in objective.samplers() if each in SAMPLERS]
        drawn = [each for each in samplers if not SAMPLERS[each].conditional]
        for options in [{}, *({"sampler": each} for each in drawn), *(WORD_OPTIONS if is_leading else [])]:
            yield "words", words, name, options
        yield "counts", counts, name, {}
        for options in [{}, *({"sampler": each} for each in samplers), *(LABEL_OPTIONS if is_leading or name == "ova" else [])]:
            yield "dense", dense, name, options
        for options in [{}, *(SPARSE_OPTIONS if is_leading or name == "ova" else [])]:
            yield "sparse", sparse, name, options


def digest(arrays: dict[str, np.ndarray]) -> str:
    total = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        total.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
    return total.hexdigest()


def main(path: str, before: str | None = None) -> int:
    found = {}
    for task, train, name, options in cases():
        key = " ".join([task, name, *(f"{option}={value}" for option, value in options.items())])
        try:
            found[key] = digest(train(name, options))
        except EmbedxError as error:
            found[key] = f"refused: {error}"
        print(found[key][:16], key, flush=True)
    Path(path).write_text(json.dumps(found, indent=1))
    known = json.loads(Path(before).read_text()) if before else {}
    after = {key: found.get(key, "gone") for key in known}
    changed = [f"{key}: {value[:60]} -> {after[key][:60]}" for key, value in known.items() if after[key] != value]
    print(*changed, f"{len(changed)} of {len(known)} changed" if before else f"{len(found)} models", sep="\n")
    return int(bool(changed))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
