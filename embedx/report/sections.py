"""The parts of a page that both tasks have: settings, facts, files, learning curves."""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from embedx.pages import curves as drawing
from embedx.pages.document import note, table
from embedx.settings import as_typed

MEGABYTE = 1e6
SHOWN_ALONE = ("history", "heldout", "reader")  # facts that are no single value, or are shown elsewhere
Curve = tuple[str, list[list[float]], bool]  # what it is of, its points, whether it falls


def settings_and_facts(settings: Mapping[str, Any], facts: Mapping[str, Any]) -> list[str]:
    """All settings as they were used, and all else that the folder records of the run."""
    used = [
        ["setting", "value"],
        *([name.replace("_", "-"), typed(value)] for name, value in settings.items() if value is not None),
    ]
    known = {name: value for name, value in facts.items() if name not in SHOWN_ALONE and value is not None}
    told = [["fact", "value"], *([name.replace("_", " "), typed(value)] for name, value in known.items())]
    tables = [table(rows, names=("setting", "fact", "value"), texts=("value",)) for rows in (used, told)]
    return ["<h2>Settings and facts</h2>", '<div class="charts">', *tables, "</div>"]


def typed(value: Any) -> str:
    """A setting or a fact as it would be typed, large numbers by thousands."""
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else as_typed(value)


def files(arrays: Mapping[str, np.ndarray], path: Path) -> list[str]:
    """The arrays of the folder, which are what a loaded model takes of memory."""
    rows = [["array", "shape", "numbers", "MB"]]
    for name, array in arrays.items():
        shape = " × ".join(f"{n:,}" for n in array.shape)
        rows.append([name, shape, str(array.dtype), f"{array.nbytes / MEGABYTE:,.1f}"])
    total = sum(array.nbytes for array in arrays.values()) / MEGABYTE
    on_disk = sum(each.stat().st_size for each in path.iterdir() if each.is_file()) / MEGABYTE
    told = f"Arrays are memory-mapped: {total:,.1f} MB if all of them are read; the folder takes {on_disk:,.1f} MB on disk."
    return ["<h2>Memory</h2>", table(rows, names=("array", "shape", "numbers")), note(told)]


def curves(found: Sequence[Curve], how_to: str) -> list[str]:
    """A chart for each curve of two points and more; where there is none, how to get one."""
    drawn = [curve for curve in found if len(curve[1]) > 1]
    if not drawn:
        return ["<h2>Learning curves</h2>", f"<p>{escape(how_to)}</p>"]
    parts = ["<h2>Learning curves</h2>", '<div class="charts">']
    for k, (name, points, falls) in enumerate(drawn):
        for against, label in ((drawing.EPOCHS, "epochs"), (drawing.SECONDS, "seconds of training")):
            chart = drawing.svg({name: [points]}, against, label, name, f"plot{k}-{against}", falls)
            parts.append(f"<figure>{chart}<figcaption>{escape(name)} against {label}</figcaption></figure>")
    return [*parts, "</div>"]


def unit_of_loss(facts: Mapping[str, Any]) -> str:
    """`, nats per pair`."""
    return f", {facts['loss_unit']}" if facts.get("loss_unit") else ""


def pace(facts: Mapping[str, Any], unit: str) -> dict[str, str]:
    """How long training took and how fast it was, as far as the folder tells."""
    found = {}
    if facts.get("epochs") is not None:
        found["epochs"] = f"{facts['epochs']:g}"
    if facts.get("seconds") is not None:
        found["training"] = f"{facts['seconds']:,.1f} s"
    if facts.get(f"{unit}_per_second"):
        found[f"{unit}/s"] = f"{facts[f'{unit}_per_second']:,}"
    if facts.get("final_loss") is not None:
        found[f"loss at the end{unit_of_loss(facts)}"] = f"{facts['final_loss']:.4f}"
    if facts.get("baseline_loss") is not None:
        found["loss by frequencies alone"] = f"{facts['baseline_loss']:.4f}"
    return found
