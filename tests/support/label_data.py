"""Sparse rows whose labels can be learned, and classifiers of them."""

import numpy as np
from scipy.sparse import csr_matrix

from embedx import objectives
from embedx.classification.settings import ClassifySettings
from embedx.labeled.data import Labeled, Labels
from tests.support.label_training import train


def topics(n=600, n_labels=90, n_features=200, seed=0, several=True):
    """Rows of sparse features whose labels can be told: each label has three features of its own,
    and there is noise.
    """
    rng = np.random.default_rng(seed)
    features_of_label = rng.integers(0, n_features, (n_labels, 3))
    lists = [
        np.sort(rng.choice(n_labels, rng.integers(1, 4) if several else 1, replace=False))
        for _ in range(n)
    ]
    x = np.zeros((n, n_features), dtype=np.float32)
    for i, labels in enumerate(lists):
        x[i, features_of_label[labels].ravel()] = 1
        x[i, rng.integers(0, n_features, 3)] += 0.5
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return Labeled(csr_matrix(x), Labels.of_rows(lists), n_labels)


def label_rows(data):
    """The label ids of each row, as lists."""
    return [data.labels[row].tolist() for row in range(len(data))]


def write_xc(path, rows, labels, n_labels=120):
    """Write rows, CSR, with their lists of labels as an XC file."""
    lines = [f"{rows.shape[0]} {rows.shape[1]} {n_labels}"]
    for row, of_row in zip(rows, labels, strict=True):
        pairs = " ".join(
            f"{feature}:{value:.4f}" for feature, value in zip(row.indices, row.data, strict=True)
        )
        lines.append(",".join(map(str, of_row)) + " " + pairs)
    path.write_text("\n".join(lines) + "\n")


def ova(loss="squared-hinge"):
    objective_class = objectives.find("ova")
    return objective_class(objective_class.Settings(loss=loss))


def settings(loss="squared-hinge", **options):
    by_steps = options.get("weights") == "dense" or loss == "logistic" or options.get("bias")
    steps = {"batch_size": 16, "learning_rate": 0.3} if by_steps else {}
    return ClassifySettings(**{"epochs": 6, "threads": 1, **steps, **options})


def trained(data, *, loss="squared-hinge", **options):
    return train(data, ova(loss), settings(loss, **options)).classifier
