"""The data sets of papers_ldgs.py, and how each of them is learned."""

import dataclasses
from typing import Any

from eval import papers_ldgs_data as sources


@dataclasses.dataclass(frozen=True)
class Task:
    """A data set and how it is learned: what the paper sets for multiclass data, or for several
    labels.
    """

    multilabel: bool
    measure: str  # what is drawn and judged
    tuned_by: str  # what rates are chosen by, which must differ after little training
    tuned_on: float  # on this share of the rows, once through
    epochs: tuple[float, ...]  # when to measure; the last is the end
    smoothing: float
    blocks: int
    hidden: int | None = None
    # the data set of documents
    data: str | None = None
    # of made-up faces with many identities, which have one thread and are measured by its time
    identities: int | None = None
    dim: int = sources.FACE_DIM

    def settings(self, n_labels: int) -> dict[str, Any]:
        return {
            "smoothing": self.smoothing,
            "blocks": self.blocks,
            "loss": "margin",
            "scored_fraction": 0.01,
            "sampler": "uniform",
            "negatives": max(1, n_labels // 100),
        }


NEXT_WORD = Task(
    multilabel=False,
    measure="accuracy",
    tuned_by="reciprocal rank",
    tuned_on=0.1,
    epochs=(0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1, 1.5, 2, 3, 4),
    smoothing=1.0,
    blocks=8,
)
FACES_EPOCHS = (0.1, 0.2, 0.5, 1, 1.5, 2, 3, 5, 7, 10)
MANY_FACES = dataclasses.replace(
    NEXT_WORD,
    tuned_on=0.8,
    epochs=(0.0005, 0.002, 0.01, 0.05, 0.2, 0.5, 1, 2, 3, 5),
    dim=512,
)
DOCUMENTS = Task(
    multilabel=True,
    measure="p@1",
    tuned_by="p@1",
    tuned_on=0.8,
    epochs=(0.05, 0.1, 0.2, 0.5, 1, 2, 3, 5, 7, 10),
    smoothing=5.0,
    blocks=4,
    hidden=sources.DIM,
    data="eurlex-4.3k",
)
TASKS = {
    "next-word": NEXT_WORD,
    "faces": dataclasses.replace(NEXT_WORD, tuned_on=0.8, epochs=FACES_EPOCHS),
    "faces-100k": dataclasses.replace(MANY_FACES, identities=100_000),
    "faces-600k": dataclasses.replace(MANY_FACES, identities=600_000),
    "documents": DOCUMENTS,
    # the paper's own
    "wikilshtc-325k": dataclasses.replace(
        DOCUMENTS,
        data="wikilshtc-325k",
        tuned_on=0.1,
        epochs=(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 3, 5, 7, 10),
    ),
}
