"""Skip-gram on the collapsed objective (eq. 9 of the paper): exact gradients and those of rows
found, beside streaming.

All are judged by the mean exact log-probability, by each model's own meaning of its scores, of
pairs of a text held out: what a search reports as its objective is taken over the rows found, and
too small by what it did not find.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import embedx
from embedx.evaluation import held_out, words
from embedx.runtime.progress import SILENT
from embedx.skipgram.collapsed import CollapsedRun
from embedx.skipgram.configuration import configure
from embedx.skipgram.reading import read_corpora
from embedx.training import life
from eval.page import DASH, number, plotted, table, target
from eval.papers_ldgs_data import opened
from eval.records import Job, Records, Result

DRAWS_TAIL = "--tail"  # in the name of a contender
ALONE = {"candidate_fraction": 1.0, "tail": False}  # only what is found, as in the paper
COLLAPSED: dict[str, dict[str, Any]] = {  # by objective, or that and an option
    "softmax": {},
    "ldgs": {"blocks": 8} | ALONE,
    "ldgs --candidate-fraction 0.1": {"blocks": 8} | ALONE | {"candidate_fraction": 0.1},
    "ldgs --tail": {"blocks": 8},  # embedx's default
    "mips": ALONE,
    "mips --candidate-fraction 0.1": ALONE | {"candidate_fraction": 0.1},
    "mips --tail": {},
}
STREAMED: dict[str, dict[str, Any]] = {
    "ns": {},  # 5 negatives
    **{f"ns --negatives {n}": {"negatives": n} for n in (10, 15, 20, 25)},
    "hs": {},
}
STREAMED_EPOCHS = (1, 3, 10)
GROWING = ("softmax", "ldgs --tail")  # one iteration of each, on more and more words
HELD_OUT = 500_000  # bytes at the end of the text
COLORS = {
    "softmax": "tab:blue",
    "mips": "tab:purple",
    "ldgs": "tab:red",
    "ns": "tab:gray",
    "hs": "tab:brown",
}


def split(corpus: str, folder: Path) -> tuple[Path, Path]:
    """The text without its end, and the end."""
    if not Path(corpus).is_file():
        raise SystemExit(
            f"{corpus}: the section words needs a text of its own: --set corpus=FILE, or --data"
        )
    with opened(corpus) as text:
        data = text.read()
    cut = data.rindex(b" ", 0, len(data) - min(HELD_OUT, len(data) // 10))
    training = folder / "collapsed-training.txt"
    rest = folder / "collapsed-heldout.txt"
    training.write_bytes(data[:cut])
    rest.write_bytes(data[cut:])
    return training, rest


def judged(vectors: Any, rest: Path) -> dict[str, float]:
    """What a model makes of the text held out: the same pairs for all models of the same words."""
    metrics = held_out.evaluate(vectors, *held_out.pairs_of([str(rest)], vectors)).metrics()
    return {name: metrics[name] for name in ("log_likelihood", "standard_error")}


def similarity(vectors: Any) -> dict[str, float]:
    return {set_score.test.name: float(set_score.score) for set_score in words.score_items(vectors)}


def measure_collapsed(
    name: str, training: Path, rest: Path, n_words: int, limit: dict[str, float], min_count: int = 5
) -> dict[str, Any]:
    """A collapsed run of so many seconds or iterations: what was held out after each iteration."""
    options = {"dim": 100} | limit | COLLAPSED[name]
    sizes = {"max_vocab": n_words, "min_count": min_count}
    points: list[dict[str, float]] = []

    def watch(vectors: Any, iteration: Any) -> None:
        costs = {name: getattr(iteration, name) for name in ("seconds", "macs")}
        points.append(
            {"iteration": iteration.number, **costs, "objective": iteration.loss}
            | judged(vectors, rest)
        )

    config = configure(name.split()[0], options | sizes, is_collapsed=True)
    with read_corpora([str(training)], config, SILENT, None) as corpus:
        run = CollapsedRun.resolved(corpus, config, SILENT)
        run.watch = watch
        vectors = life.train_model(run).model
    return {
        "points": points,
        "final": similarity(vectors),
        "options": options,
        "words": len(vectors.words),
    }


def measure_streamed(name: str, training: Path, rest: Path, n_words: int) -> dict[str, Any]:
    """Streaming runs of several lengths."""
    points = []
    options = {"dim": 100, "max_vocab": n_words} | STREAMED[name]
    for epochs in STREAMED_EPOCHS:
        fitted = embedx.SkipGram(name.split()[0], epochs=epochs, **options)
        vectors = fitted.fit(str(training)).model
        points.append(
            {"iteration": epochs, "seconds": fitted.outcome.seconds} | judged(vectors, rest)
        )
    return {"points": points, "final": similarity(vectors)}


def jobs(n_words: int) -> Iterator[Job]:
    for what, contenders in (("collapsed", COLLAPSED), ("streamed", STREAMED)):
        yield from (
            {"section": "words", "what": what, "contender": name, "words": n_words}
            for name in contenders
        )


def growth_jobs(sizes: tuple[int, ...]) -> Iterator[Job]:
    for n_words in sizes:
        yield from (
            {"section": "growth", "what": "collapsed", "contender": name, "words": n_words}
            for name in GROWING
        )


def measure(job: Job, corpus: str, folder: Path, seconds: float) -> Result:
    training, rest = split(corpus, folder)
    if job["section"] == "growth":
        return measure_collapsed(
            job["contender"], training, rest, job["words"], {"epochs": 1}, min_count=1
        )
    if job["what"] == "streamed":
        return measure_streamed(job["contender"], training, rest, job["words"])
    return measure_collapsed(
        job["contender"], training, rest, job["words"], {"time_budget": seconds}
    )


# ---- tables


def an_iteration(points: list[dict[str, float]]) -> tuple[float, float]:
    """Seconds and multiply-adds of an iteration on average, the look at the start left out."""
    first = points[0]
    last = points[-1]
    n = max(last["iteration"] - first["iteration"], 1)
    return (last["seconds"] - first["seconds"]) / n, (last["macs"] - first["macs"]) / n


def at_cost(points: list[dict[str, float]], cost: str, max_cost: float) -> float | None:
    """What was held out at the last point that cost no more."""
    return next(
        (point["log_likelihood"] for point in reversed(points) if point[cost] <= max_cost), None
    )


def runs_of(records: Records) -> dict[str, tuple[Job, Result]]:
    """By contender, those that came to a first iteration in time, after the look at the start."""
    records_of_words = records.find(section="words")
    finished = [record for record in records_of_words if len(record["result"]["points"]) > 1]
    return {record["job"]["contender"]: (record["job"], record["result"]) for record in finished}


def runs(records: Records) -> str:
    """What each came to, and what an iteration takes."""
    rows = []
    for job, result in runs_of(records).values():
        last = result["points"][-1]
        is_collapsed = job["what"] == "collapsed"
        seconds_per_iteration, macs = (
            an_iteration(result["points"]) if is_collapsed else (None, None)
        )
        rows.append(
            {
                "contender": f"`{job['contender']}`" + (" --collapsed" if is_collapsed else ""),
                "words": f"{job['words']:,}",
                "iterations or epochs": f"{last['iteration']:g}",
                "seconds": f"{last['seconds']:.3g}",
                "seconds each": f"{seconds_per_iteration:.3g}"
                if seconds_per_iteration is not None
                else DASH,
                "multiply-adds each": f"{macs:.2g}" if macs else DASH,
                "held-out log-likelihood": (
                    f"{last['log_likelihood']:.4f} ± {last['standard_error']:.4f}"
                ),
                **{test: number(score) for test, score in result["final"].items()},
            }
        )
    return table(rows)


def growth(records: Records) -> str:
    """What an iteration takes exactly and with found and drawn rows, by the number of words."""
    by_size: dict[int, dict[str, Result]] = {}
    for record in records.find(section="growth"):
        by_size.setdefault(record["result"]["words"], {})[record["job"]["contender"]] = record[
            "result"
        ]
    rows = []
    for n_words, results in sorted(by_size.items()):
        row: dict[str, Any] = {"words": f"{n_words:,}"}
        for name, result in results.items():
            seconds, macs = an_iteration(result["points"])
            row |= {
                f"`{name}`: seconds": f"{seconds:.3g}",
                f"`{name}`: multiply-adds": f"{macs:.2g}",
                f"`{name}`: held-out log-likelihood": number(
                    result["points"][-1]["log_likelihood"], 4
                ),
            }
        if len(results) == len(GROWING):
            exact, with_search = (an_iteration(results[name]["points"]) for name in GROWING)
            row |= {
                "× fewer seconds": f"{exact[0] / with_search[0]:.1f}",
                "× fewer multiply-adds": f"{exact[1] / with_search[1]:.1f}",
            }
        rows.append(row)
    return table(rows)


def targets(records: Records) -> str:
    """Rows for each way that `ldgs` went, beside the best of those of `mips` that draw rows for
    what was not found as it does, or not.
    """
    points = {name: result["points"] for name, (_, result) in runs_of(records).items()}
    rows = []
    for name in points:
        all_mips = [points[other] for other in points if is_mips_like(other, name)]
        if name.split()[0] != "ldgs" or "softmax" not in points or not all_mips:
            continue
        ratio = an_iteration(points["softmax"])[1] / an_iteration(points[name])[1]
        promise = f"`{name}` takes 5 times fewer multiply-adds an iteration than exact"
        rows.append(target(promise, f"{ratio:.1f} times", ratio >= 5))
        for cost, equal in (("macs", "multiply-adds"), ("seconds", "time")):
            max_cost = min(points[name][-1][cost], max(mips[-1][cost] for mips in all_mips))
            ours = at_cost(points[name], cost, max_cost)
            theirs = [at_cost(mips, cost, max_cost) for mips in all_mips]
            best = max((seconds for seconds in theirs if seconds is not None), default=None)
            if ours is None or best is None:
                shown = None
            else:
                shown = f"{ours:.4f} beside {best:.4f} at {max_cost:.3g}"
            mips_called = "`mips --tail`" if DRAWS_TAIL in name else "`mips`"
            promise = (
                f"`{name}` has more held-out log-likelihood than {mips_called} at equal {equal}"
            )
            rows.append(target(promise, shown, shown is not None and ours > best))
    return table(rows)


def is_mips_like(name: str, ldgs: str) -> bool:
    """Whether a contender is `mips` and draws rows for those not found where one of `ldgs` does."""
    return name.split()[0] == "mips" and (DRAWS_TAIL in name) == (DRAWS_TAIL in ldgs)


def plot(records: Records) -> Any:
    """Held-out log-likelihood against seconds and against multiply-adds."""
    runs = runs_of(records)
    if not runs:
        return None
    panels: list[Any] = []
    for cost, about in (
        ("seconds", {"title": "words, collapsed (-) and streamed (--)"}),
        ("macs", {}),
    ):
        lines = []
        for name, (job, result) in runs.items():
            points = [
                (point[cost], point["log_likelihood"])
                for point in result["points"]
                if point.get(cost)
            ]
            style = {
                "color": COLORS.get(name.split()[0]),
                "alpha": 0.4 if " " in name else 1,
                "marker": ".",
                "label": name,
            }
            if points:
                lines.append(
                    (
                        *zip(*points, strict=True),
                        style | {"ls": "-" if job["what"] == "collapsed" else "--"},
                    )
                )
        panels.append(
            (
                lines,
                about
                | {
                    "xscale": "log",
                    "xlabel": "seconds" if cost == "seconds" else "multiply-adds",
                },
            )
        )
    return plotted(11, 4, panels, ylabel="held-out log-likelihood", sharey=True)
