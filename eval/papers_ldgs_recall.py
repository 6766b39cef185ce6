"""How much of an exact gradient lies on the rows that a search in blocks of columns would find.

The gradient of an example along its scores has mass |∂loss/∂z_k| on row k. Its labels are always known, so only the mass of the
other rows counts. A search is a function `propose(blocks, looked_at)` that gives the rows it finds for each query when it
looks at so many rows in each of so many blocks; that takes about looked_at · dim multiplications whatever the blocks.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eval import page
from eval.records import Job, Record, Records, Result
from eval.under_test import (
    SearchSpec,
    aligned_zeros,
    build_index,
    find_rows,
    new_batch,
    new_query_workspace,
    usable_cores,
)

BLOCKS = (1, 4, 8)
SHARES = (0.0005, 0.001, 0.003, 0.01, 0.03, 0.1)  # of the rows, looked at in each block

Propose = Callable[[int, int], list[np.ndarray]]


def with_bias(h: np.ndarray, output: np.ndarray, bias: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Queries (n, dim) and table (n_rows, dim), with a last column for the biases if there are any."""
    if bias is None:
        return h, output
    ones = np.ones((len(h), 1), dtype=np.float32)
    return np.concatenate([h, ones], axis=1), np.concatenate([output, bias[:, None]], axis=1)


def best_rows(table: np.ndarray, queries: np.ndarray) -> Propose:
    """A search that makes no mistakes: in each block the rows that score highest there."""

    def propose(blocks: int, looked_at: int) -> list[np.ndarray]:
        found: list[list[np.ndarray]] = [[] for _ in queries]
        for columns in np.array_split(np.arange(table.shape[1]), blocks):
            z = queries[:, columns] @ table[:, columns].T
            best = np.argpartition(-z, min(looked_at, len(table)) - 1, axis=1)[:, :looked_at]
            for rows, more in zip(found, best, strict=True):
                rows.append(more)
        return [np.unique(np.concatenate(rows)) for rows in found]

    return propose


def by_index(table: np.ndarray, queries: np.ndarray) -> Propose:
    """The search that `mips` and `ldgs` make: in each block the rows of the clusters that point the way of the query."""
    n_rows, dim = table.shape
    padded = aligned_zeros(n_rows, dim)
    padded[:, :dim] = table

    def propose(blocks: int, looked_at: int) -> list[np.ndarray]:
        search = SearchSpec(
            blocks, clusters=round(n_rows**0.5), n_scored=looked_at, max_candidates=n_rows, threshold=0.0,
            min_coefficient=1e-3, max_gap=1e30, from_logsumexp=False, message_iterations=0,
        )  # fmt: skip
        index = build_index(padded, n_rows, dim, search, np.random.default_rng(0), usable_cores())
        h = np.ascontiguousarray(queries, dtype=np.float32)
        rows, n_found = np.zeros((len(h), n_rows), dtype=np.int32), np.zeros(len(h), dtype=np.int64)
        find_rows(index, search, h, rows, n_found, new_query_workspace(n_rows, search))
        return [rows[i, :n] for i, n in enumerate(n_found)]

    return propose


SEARCHES: dict[str, Callable[[np.ndarray, np.ndarray], Propose]] = {"best rows": best_rows, "index": by_index}


def gradient_mass(objective: Any, z: np.ndarray, labels: Any) -> np.ndarray:
    """float32 (n, n_rows): |∂loss/∂z| of an exact objective on the scores, 0 on the labels of each example."""
    n, n_rows = z.shape
    example = np.repeat(np.arange(n), labels.n_of_row)
    batch, state = new_batch(n, n_rows, objective.uniforms_width), np.zeros((n, objective.state_width), dtype=np.float32)
    batch.z[:], batch.sample_count[:], batch.key[:] = z, 1, np.arange(n)
    batch.label[example, labels.ids] = 1
    objective.coefficients(batch, state, objective.constants(n_rows, n_rows), n, n_rows, np.float32(0))
    mass = np.abs(batch.z)
    mass[example, labels.ids] = 0
    return mass


def share_found(mass: np.ndarray, found: list[np.ndarray]) -> float:
    """The mean over the examples that have any mass of the share of it that is on the rows found."""
    whole = mass.sum(axis=1)
    shares = [mass[i, rows].sum() / whole[i] for i, rows in enumerate(found) if whole[i] > 0]
    return float(np.mean(shares)) if shares else float("nan")


def by_share(mass: np.ndarray, propose: Propose, blocks: int) -> list[dict[str, float]]:
    """The recall and how many rows were found on average, by the share of the rows looked at in each block."""
    points = []
    n_rows = mass.shape[1]
    for share in SHARES:
        looked_at = max(1, round(share * n_rows))
        found = propose(blocks, looked_at)
        size = float(np.mean([len(rows) for rows in found]))
        points.append({"share": share, "looked_at": looked_at, "recall": share_found(mass, found), "found": size})
    return points


# ---- the table and the picture


def results(records: Records) -> str:
    """What a search finds, beside whole rows of which as many are scored; what blocks found is scored exactly in the end."""
    found = records.find(section="recall")
    curves = {curve_of(each): each["result"]["by_share"] for each in found if each["job"]["blocks"] == 1}
    rows = []
    for each in found:
        job = each["job"]
        for point in each["result"]["by_share"]:
            scored = point["looked_at"] + (point["found"] if job["blocks"] > 1 else 0)
            whole = recall_at(curves.get(curve_of(each), []), scored) if job["blocks"] > 1 else None
            rows.append({
                "data": job["data"], "trained by": f"`{job['contender']}`", "search": job["by"], "blocks": job["blocks"],
                "looked at in each": f"{100 * point['share']:g} %", "share of the gradient": page.number(point["recall"]),
                "rows found": f"{point['found']:,.0f}", "rows scored": f"{scored:,.0f}",
                "whole rows, as many scored": page.number(whole),
            })  # fmt: skip
    return page.table(rows)


def curve_of(each: Record) -> tuple[str, ...]:
    """What records of one search in several numbers of blocks have in common."""
    return tuple(each["job"][name] for name in ("data", "contender", "by"))


def recall_at(points: Sequence[dict[str, float]], scored: float) -> float | None:
    """The recall of whole rows between the measured ones, by the logarithm of the rows scored; None beyond them."""
    if not points or not points[0]["looked_at"] <= scored <= points[-1]["looked_at"]:
        return None
    at = [math.log(point["looked_at"]) for point in points]
    return float(np.interp(math.log(scored), at, [point["recall"] for point in points]))


def plot(records: Records) -> Any:
    """Recall against the share of rows looked at, a panel for each classifier."""
    grouped: dict[str, list[tuple[Job, Result]]] = {}
    for each in records.find(section="recall"):
        grouped.setdefault(f"{each['job']['data']}, {each['job']['contender']}", []).append((each["job"], each["result"]))
    if not grouped:
        return None
    picture, panels = page.figure(4 * len(grouped), 3.6, len(grouped), dpi=70, sharey=True)
    for axis, (title, lines) in zip(panels, grouped.items(), strict=True):
        for job, found in lines:
            points, style = found["by_share"], "-" if job["by"] == "best rows" else "--"
            label = f"{job['blocks']} blocks, {job['by']}"
            axis.plot([p["share"] for p in points], [p["recall"] for p in points], style, marker=".", label=label)
        axis.set(xscale="log", xlabel="share of the rows looked at in each block", title=title)
        axis.legend(fontsize=7)
    panels[0].set_ylabel("share of the gradient found")
    return picture
