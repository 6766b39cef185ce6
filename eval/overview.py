"""The tables and the picture of README.md and docs/benchmarks.md, from the records: `python -m eval
overview`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from eval import speed, speed_classification, speed_many_labels, speed_runs, speed_tables
from eval.experiment import RESULTS, ROOT, written
from eval.page import MEGABYTE, figure, filled, number, table, thousands
from eval.records import Record
from eval.speed_classification import Row, measured, several_labels

README = ROOT / "README.md"
PAGE = ROOT / "docs" / "benchmarks.md"
PICTURE = ROOT / "docs" / "benchmarks.png"
WORDS, LABELS, DENSE = (
    module.EXPERIMENT.records_in(RESULTS)
    for module in (speed, speed_many_labels, speed_classification)
)
OURS, OTHERS = "#00796b", "#b0bec5"
MAX_LETTERS = 25  # longer names of the picture have a second line


def trainers() -> list[Record]:
    """Trainers of word vectors on all threads, each at its best rate, embedx at its defaults; the
    fastest first.
    """
    runs = []
    for record in speed_runs.best_peers(WORDS):
        job = record["job"]
        is_default = job.get("name", speed_runs.DEFAULT) == speed_runs.DEFAULT
        if is_default and job["threads"] == speed_runs.THREADS[-1]:
            runs.append(record)
    return sorted(runs, key=lambda record: float(record["result"]["training"]))


def tool_name(record: Record) -> str:
    return str(record["job"]["tool"]).replace("word2vec", "word2vec.c")


def word_vectors() -> str:
    return table(
        [
            {
                "trainer": tool_name(record),
                "s training": number(record["result"]["training"], 1),
                "words/s": thousands(speed_runs.rate(WORDS, [record])),
                speed_runs.POOLED: number(record["result"]["pooled"]["score"]),
            }
            for record in trainers()
        ]
    )


def labels(dataset: str) -> str:
    return table(
        [
            {
                "trainer": row.name,
                "s training": f"{row['training']:.1f}",
                **{f"P@{k}": f"{row[f'p@{k}']:.3f}" for k in (1, 3, 5)},
                "model, MB": f"{row['size'] / MEGABYTE:,.0f}",
                "rows/s predicting": f"{row['rows'] / row['prediction']:,.0f}",
            }
            for row in by_time(dataset)
        ]
    )


def by_time(dataset: str) -> list[Row]:
    return sorted(measured(LABELS, dataset), key=lambda row: float(row["training"]))


def parts() -> dict[Path, dict[str, str]]:
    """The tables of each file, by name."""
    small = {
        "word-vectors": WORDS.with_states(lambda _: word_vectors()),
        "categories": LABELS.with_states(lambda _: labels("enwiki-cat")),
    }
    large = {
        "quality": WORDS.with_states(speed_tables.quality),
        "training": WORDS.with_states(speed_tables.training),
        "eurlex": LABELS.with_states(lambda _: labels("eurlex")),
        "dense": DENSE.with_states(lambda records: several_labels("eurlex", records)),
    }
    return {README: small, PAGE: small | large}


def picture() -> Any:
    """Seconds of training, with the score of each trainer; readable on a phone, too."""
    picture, panels = figure(5.2, 5.2, rows=2, dpi=150)
    words = [
        (tool_name(record), record["result"]["training"], record["result"]["pooled"]["score"])
        for record in trainers()
    ]
    bars(panels[0], words, "Word vectors (and similarity)")
    rows = [(row.name, row["training"], row["p@1"]) for row in by_time("enwiki-cat")]
    bars(panels[1], rows, "128,391 labels (and P@1)")
    return picture


def bars(panel: Any, rows: Sequence[tuple[str, float, float]], title: str) -> None:
    names, seconds, scores = zip(*reversed(rows), strict=True)
    short_names = [name.replace(", ", ",\n") if len(name) > MAX_LETTERS else name for name in names]
    bars_of_rows = panel.barh(
        short_names,
        seconds,
        color=[OURS if name.startswith("embedx") else OTHERS for name in names],
    )
    panel.bar_label(
        bars_of_rows,
        [f"{s:.1f} s ({score:.3f})" for s, score in zip(seconds, scores, strict=True)],
        padding=3,
        size=9,
    )
    panel.set_title(title, size=11)
    panel.set(xlabel="seconds of training, 2 threads", xlim=(0, 1.6 * max(seconds)))
    panel.spines[["top", "right"]].set_visible(False)


def publish() -> None:
    for file, made in parts().items():
        written(file, filled(file.read_text("utf-8"), made, file))
    picture().savefig(PICTURE)
    print(*parts(), PICTURE, sep="\n")
