"""Skip-gram on the collapsed objective (eq. 9 of the paper): exact gradients and those of rows found, beside streaming.

All are judged by the mean exact log-probability, by each model's own meaning of its scores, of pairs of a text held out: what a
search reports as its objective is taken over the rows found, and too small by what it did not find.
"""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

from embedx.compiled import cache_home
from embedx.model import WordVectors
from papers_common import Records, commit, table
from papers_ldgs_page import COLORS, found, number, plots, saved, short, verdict

from embedx import collapsed, objectives, skipgram
from embedx.evaluation import heldout, words
from embedx.settings import VocabularySettings

COLLAPSED: dict[str, dict[str, Any]] = {  # by objective, or that and an option
    "softmax": {},
    "ldgs": {"blocks": 8},
    "ldgs --keep 0.1": {"blocks": 8, "keep": 0.1},
    "mips": {},
    "mips --keep 0.1": {"keep": 0.1},
}
STREAMED = {"ns": (1, 3, 10), "hs": (1, 3, 10)}  # epochs
WORDS = 20_000  # so many that an exact iteration takes seconds
HELD_OUT = 500_000  # bytes at the end of the text
COLORED = COLORS | {"ns": "tab:gray", "hs": "tab:brown"}


def split(corpus: str, quick: bool) -> tuple[Path, Path]:
    """The text without its end, and the end."""
    folder = cache_home() / "eval"
    folder.mkdir(parents=True, exist_ok=True)
    training, rest = (folder / f"collapsed-{part}{'-quick' if quick else ''}.txt" for part in ("training", "heldout"))
    opened = gzip.open if corpus.endswith(".gz") else open
    with opened(corpus, "rb") as text:
        data = text.read()
    cut = data.rindex(b" ", 0, len(data) - min(HELD_OUT, len(data) // 10))
    training.write_bytes(data[:cut])
    rest.write_bytes(data[cut:])
    return training, rest


def judge(rest: Path) -> Callable[[WordVectors], dict[str, float]]:
    """What a model makes of the text held out: the same pairs for all models of the same words."""

    def of(vectors: WordVectors) -> dict[str, float]:
        metrics = heldout.evaluate(vectors, *heldout.pairs_of([str(rest)], vectors)).metrics()
        return {name: metrics[name] for name in ("log_likelihood", "standard_error")}

    return of


def similarity(vectors: WordVectors) -> dict[str, float]:
    return {answers.test.name: float(answers.score) for answers in words.score(vectors)}


def measure_collapsed(name: str, training: Path, rest: Path, n_words: int, seconds: float) -> dict[str, Any]:
    """A collapsed run: what was held out after each iteration."""
    options = {"time_budget": seconds, "dim": 100} | COLLAPSED[name]
    settings, own, objective = collapsed.chosen(objectives.find(name.split()[0]), options)
    points: list[dict[str, float]] = []
    of = judge(rest)

    def watch(vectors: WordVectors, iteration: collapsed.Iteration) -> None:
        told = {
            "iteration": iteration.number,
            "seconds": iteration.seconds,
            "macs": iteration.macs,
            "objective": iteration.objective,
        }
        points.append(told | of(vectors))

    vocabulary = VocabularySettings(max_vocab=n_words)
    trained = collapsed.train([str(training)], objective, settings, own, vocabulary=vocabulary, watch=watch)
    return {"points": points, "final": similarity(trained.vectors), "options": options}


def measure_streamed(name: str, training: Path, rest: Path, n_words: int) -> dict[str, Any]:
    """Streaming runs of several lengths."""
    points, vectors = [], None
    for epochs in STREAMED[name]:
        settings, objective = skipgram.chosen(objectives.find(name), {"epochs": epochs, "dim": 100})
        trained = skipgram.train([str(training)], objective, settings, vocabulary=VocabularySettings(max_vocab=n_words))
        vectors = trained.vectors
        points.append({"iteration": epochs, "seconds": trained.outcome.seconds} | judge(rest)(vectors))
    assert vectors is not None
    return {"points": points, "final": similarity(vectors)}


def run(records: Records, corpus: str, quick: bool, seconds: float) -> None:
    """Measure what is not there."""
    training, rest = split(corpus, quick)
    n_words = 200 if quick else WORDS
    for name in COLLAPSED:
        key = {"section": "words", "what": "collapsed", "contender": name, "words": n_words}
        records.get(key, lambda name=name: measure_collapsed(name, training, rest, n_words, seconds) | {"commit": commit()})
    for name in STREAMED:
        key = {"section": "words", "what": "streamed", "contender": name, "words": n_words}
        records.get(key, lambda name=name: measure_streamed(name, training, rest, n_words) | {"commit": commit()})


# ---- the page


def an_iteration(points: list[dict[str, float]]) -> tuple[float, float]:
    """Seconds and multiply-adds of an iteration on average, the look at the start left out."""
    first, last = points[0], points[-1]
    n = max(last["iteration"] - first["iteration"], 1)
    return (last["seconds"] - first["seconds"]) / n, (last["macs"] - first["macs"]) / n


def at_cost(points: list[dict[str, float]], cost: str, most: float) -> float | None:
    """What was held out at the last point that cost no more."""
    return next((point["log_likelihood"] for point in reversed(points) if point[cost] <= most), None)


def part(records: Records, file: Path) -> str:
    """The section of the page; empty if nothing was measured."""
    runs = {key["contender"]: (key, value) for key, value in found(records, section="words")}
    if not runs:
        return ""
    n_words = next(iter(runs.values()))[0]["words"]
    rows = []
    for key, value in runs.values():
        last = value["points"][-1]
        is_collapsed = key["what"] == "collapsed"
        each, macs = an_iteration(value["points"]) if is_collapsed else (None, None)
        rows.append(
            [spoken(key), f"{last['iteration']:g}", short(last["seconds"]), short(each),
             f"{macs:.2g}" if macs else "–", f"{last['log_likelihood']:.4f} ± {last['standard_error']:.4f}",
             *(number(value["final"].get(test)) for test in tests(runs))]
        )  # fmt: skip
    head = [
        "",
        "iterations or epochs",
        "seconds",
        "seconds each",
        "multiply-adds each",
        "held-out log-likelihood",
        *tests(runs),
    ]
    return "\n".join(
        [
            f"## Words, collapsed\n\nThe {n_words:,} most frequent words of the text, 100 numbers each, from an epoch of `ns`. "
            "Paper (BillionW, figure 3): an iteration of GD-Decomp-MIPS takes a fifth of GD's time and has a much better "
            "objective than GD-MIPS at equal time. The first epoch is not in the seconds, the building of indexes not in the "
            f"multiply-adds.\n\n![held-out log-likelihood against cost]({draw(runs, file)})\n",
            table(head, rows),
            table(["target", "result"], targets(runs)),
        ]
    )


def spoken(key: dict[str, Any]) -> str:
    return f"`{key['contender']}`" + (" --collapsed" if key["what"] == "collapsed" else "")


def tests(runs: dict[str, Any]) -> list[str]:
    """The names of the similarity tests."""
    return list(dict.fromkeys(test for _, value in runs.values() for test in value["final"]))


def targets(runs: dict[str, Any]) -> list[list[str]]:
    """Lines for each way that `ldgs` went, beside the best of those of `mips`."""
    points = {name: value["points"] for name, (_, value) in runs.items()}
    all_mips = [points[name] for name in points if name.split()[0] == "mips"]
    if "softmax" not in points or not all_mips:
        return []
    rows = []
    for name in (each for each in points if each.split()[0] == "ldgs"):
        ratio = an_iteration(points["softmax"])[1] / an_iteration(points[name])[1]
        what = f"words: `{name}` takes 5 times fewer multiply-adds an iteration than exact"
        rows.append(verdict(what, ratio >= 5, f"{ratio:.1f} times"))
        for cost in ("macs", "seconds"):
            most = min(points[name][-1][cost], max(mips[-1][cost] for mips in all_mips))
            ours, theirs = at_cost(points[name], cost, most), [at_cost(mips, cost, most) for mips in all_mips]
            best = max((each for each in theirs if each is not None), default=None)
            equal = "multiply-adds" if cost == "macs" else "time"
            what = f"words: `{name}` has more held-out log-likelihood than `mips` at equal {equal}"
            told = None if ours is None or best is None else f"{ours:.4f} beside {best:.4f} at {most:.3g}"
            rows.append(verdict(what, told is not None and ours > best, told))
    return rows


def draw(runs: dict[str, Any], file: Path) -> str:
    figure, axes = plots().subplots(1, 2, figsize=(11, 4), sharey=True)
    for name, (key, value) in runs.items():
        for axis, cost in zip(axes, ("seconds", "macs"), strict=True):
            points = [point for point in value["points"] if point.get(cost)]
            style = "-" if key["what"] == "collapsed" else "--"
            if points:
                axis.plot(
                    [point[cost] for point in points], [point["log_likelihood"] for point in points], style, marker=".",
                    label=name, color=COLORED.get(name.split()[0]), alpha=0.4 if " " in name else 1,
                )  # fmt: skip
    axes[0].set(
        xscale="log", xlabel="seconds", ylabel="held-out log-likelihood", title="words, collapsed (-) and streamed (--)"
    )
    axes[1].set(xscale="log", xlabel="multiply-adds")
    axes[0].legend(fontsize=7)
    return saved(figure, file)
