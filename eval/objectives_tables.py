"""The tables, the targets and the pictures of `objectives`, and the scores that embedx prints."""

import json
import math
from typing import Any

import numpy as np

from docs import hooks
from embedx import objectives
from embedx.evaluation import statistics, word_report
from eval import word_tests
from eval.experiment import ROOT, written
from eval.objectives_compared import (
    END,
    EXACT,
    FACTORS,
    PARTS,
    REFERENCE,
    TEST,
    VALIDATION,
    best_label,
    best_points,
    fastest,
    finished,
    likeliest,
    likelihoods,
    log_likelihood,
    mean,
    mean_of,
    newest,
    points,
    similarities,
    slower,
)
from eval.page import DASH, MEGABYTE, figure, filled, in_two, number, table, target, thousands
from eval.records import Record, Records, Result

REPORTED = {"WordSim-353": "spearman", "SimLex-999": "spearman", "Google analogies": "accuracy"}
PAGE = ROOT / "docs" / "objectives.md"
ALLOWED = 0.1  # nats that `implicit` may lose at any of the FACTORS of its learning rate
# What was promised of the defaults.
WORDSIM, PROMISED_EPOCHS = 0.60, 5
WORDSIM_OF = ("ns", "hs", "sampled-softmax", "nce", "ove", "ar", "umax", "implicit")
# at most so many times as slow as the reference at as many rows;
SLOWER = {"ar-probit": 3.0, "implicit": 3.0, "hs": 2.5}
SLOWER_OTHERS = 1.5
# one of these is to find the held-out text likelier at equal time than each of:
LIKELIER = ("ar", "umax", "implicit")
LESS_LIKELY = ("ns", "nce", "ove", "sampled-softmax")

# The columns of the second of two tables: of a part, and of the points within a time.
COSTS = ("words/s", "s", "epochs", "MB", "loss", "seeds")
AT_THE_END = (
    "words/s",
    "at the end: epochs",
    "at the end: log-likelihood",
    "at the end: pooled",
    "tried, epochs",
    "MB",
    "seeds",
)


# ---- tables


def part_table(part: str, records: Records) -> str:
    """The table of likelihood, word tests and speed of one part; numbers are means over
    the seeds.
    """
    runs = newest(records, part)
    exact = finished(runs).get(EXACT)
    likelihood_of = likelihoods(runs)
    stands = statistics.standings(likelihood_of, REFERENCE)
    similar = statistics.standings(similarities(runs))
    beside_exact = statistics.standings(likelihood_of, EXACT)
    rows = []
    for name, runs_of_name in runs.items():
        row: dict[str, Any] = {"objective": f"`{name}`"}
        rows.append(row)
        if name not in stands:
            row["log-likelihood"] = "diverged"
            continue
        held = runs_of_name[0]["result"]["heldout"]
        row["log-likelihood"] = f"{log_likelihood(runs_of_name):.3f} ± {held['standard_error']:.3f}"
        row["rank"] = stands[name].rank
        if part == "exact":
            row[f"minus {EXACT}"] = with_error(beside_exact[name].behind if exact else None)
        row[f"minus {REFERENCE}"] = with_error(stands[name].behind if REFERENCE in stands else None)
        row |= {
            "after temperature": number(mean(runs_of_name, "heldout", "calibrated")),
            "T": number(mean(runs_of_name, "heldout", "temperature"), 2),
        }
        if name in similar:
            row |= {
                "pooled similarity": number(mean(runs_of_name, "pooled", "score")),
                "rank by it": similar[name].rank,
            }
        row |= {test: score(runs_of_name, test, measure) for test, measure in REPORTED.items()}
        row |= {
            "words/s": thousands(fastest(runs_of_name)["result"]["words_per_second"]),
            "s": f"{fastest(runs_of_name)['result']['seconds']:.0f}",
            "epochs": f"{mean(runs_of_name, 'epochs'):.1f}",
            "MB": f"{mean(runs_of_name, 'peak_rss') / MEGABYTE:,.0f}",
            "loss": number(mean(runs_of_name, "loss")),
            "seeds": len(runs_of_name),
        }
        row |= {
            f"tuned on: {test}": score(runs_of_name, test, "spearman")
            for test in word_tests.TUNED_ON
        }
    return in_two(rows, "objective", COSTS)


def equal_time(records: Records) -> str:
    """Each objective's best point within the time, and what it came to at the end; the likeliest
    first.
    """
    by_label = points(records)
    labels = {name: best_label(runs_by_label) or END for name, runs_by_label in by_label.items()}
    runs = {name: runs_by_label[labels[name]] for name, runs_by_label in by_label.items()}
    likelihood_of = likelihoods(runs, TEST)
    stands = statistics.standings(likelihood_of)
    similar = statistics.standings(similarities(runs))
    orders = statistics.orders(likelihood_of)
    rows: list[dict[str, Any]] = []
    for name, stand in stands.items():
        best = runs[name]
        end = by_label[name][END]
        same = [f"`{other}`" for other in stands if other != name and not orders[name, other]]
        row = {
            "rank": stand.rank,
            "objective": f"`{name}`",
            "epochs": f"{mean(best, 'epochs'):.1f}",
            "s": f"{mean(best, 'seconds'):.0f}",
            "log-likelihood": number(stand.score.value),
            "minus the first": with_error(stand.behind),
            "not told apart from": ", ".join(same) or "-",
            "validation": number(float(np.mean([mean_of(record, VALIDATION) for record in best]))),
            "pooled similarity": number(mean(best, "pooled", "score")),
            "rank by it": similar[name].rank if name in similar else DASH,
            "words/s": thousands(fastest(best)["result"]["words_per_second"]),
        }
        row |= {test: score(best, test, measure) for test, measure in REPORTED.items()}
        is_end = labels[name] == END
        if "diverged" not in end[0]["result"]:
            row |= {
                "at the end: epochs": f"{mean(end, 'epochs'):.1f}",
                "at the end: log-likelihood": (
                    "the same" if is_end else number(mean_of(end[0], TEST))
                ),
                "at the end: pooled": (
                    "the same" if is_end else number(mean(end[:1], "pooled", "score"))
                ),
            }
        row |= {
            "tried, epochs": (
                ", ".join(sorted((label for label in by_label[name] if label != END), key=int))
                or "-"
            ),
            "MB": f"{mean(best, 'peak_rss') / MEGABYTE:,.0f}",
            "seeds": len(best),
        }
        rows.append(row)
    rows += [
        {"objective": f"`{name}`", "log-likelihood": "diverged"}
        for name in runs
        if name not in stands
    ]
    return in_two(rows, "objective", AT_THE_END)


def score(runs: list[Record], test: str, measure: str) -> str:
    value = mean(runs, "scores", test)
    return "-" if math.isnan(value) else str(word_report.shown(measure, value))


def with_error(difference: Any) -> str:
    return "-" if difference is None else f"{difference.value:+.3f} ± {difference.error:.3f}"


def equal_rows(records: Records) -> str:
    """Words per second where each objective scores as many rows as the reference."""
    rows = []
    runs = newest(records, "rows")
    for name, runs_of_name in runs.items():
        result = runs_of_name[-1]["result"]
        ratio = slower(runs, name)
        settings = result.get("settings", {})
        names = {"negatives": "negatives", "block size": "block_size", "draws": "draws"}
        sampling = {
            title: settings[name] if settings.get("draws") else "-" for title, name in names.items()
        }
        speed = "diverged" if "diverged" in result else thousands(result["words_per_second"])
        rows.append(
            {
                "objective": f"`{name}`",
                **sampling,
                "words/s": speed,
                f"{REFERENCE} is × as fast": number(ratio, 2),
            }
        )
    return table(rows)


def by_rate(records: Records) -> dict[str, dict[float, Result]]:
    """The results by objective and by factor of its own rate."""
    results: dict[str, dict[float, Result]] = {}
    for record in records.find(part="rates"):
        factor = (
            record["job"]["options"]["learning_rate"] / record["job"]["defaults"]["learning_rate"]
        )
        nearest = min(FACTORS, key=lambda known: abs(math.log(known / factor)))
        results.setdefault(record["job"]["objective"], {})[nearest] = record["result"]
    return results


def lost(by_factor: dict[float, Result]) -> dict[float, float]:
    """Nats less than at the objective's own rate, by factor; infinite where a run diverged or its
    rate had to be lowered.
    """

    def reached(factor: float) -> float:
        if "heldout" in by_factor[factor]:
            return float(by_factor[factor]["heldout"]["log_likelihood"])
        return -math.inf

    if 1.0 in by_factor and "heldout" in by_factor[1.0]:
        return {factor: reached(1.0) - reached(factor) for factor in sorted(by_factor)}
    return {}


def rates(records: Records) -> str:
    """Differences to the objective's own rate, the worst of them, and how long the longest input
    vector is at that rate.
    """
    rows = []
    for name, by_factor in by_rate(records).items():
        differences = lost(by_factor)
        row = {
            "objective": f"`{name}`",
            "own rate": f"{next(iter(by_factor.values()))['settings']['learning_rate']:g}",
        }
        if differences:
            row["own rate"] = f"{by_factor[1.0]['settings']['learning_rate']:g}"
            row |= {
                f"× {factor:g}": "diverged" if math.isinf(value) else f"{-value:+.3f}"
                for factor, value in differences.items()
            }
            if math.isinf(max(differences.values())):
                row["most lost"] = "all"
            else:
                row["most lost"] = f"{max(differences.values()):.3f}"
            if "longest_in_medians" in by_factor[1.0]:
                row["longest input, medians"] = f"{by_factor[1.0]['longest_in_medians']:.1f}"
            else:
                row["longest input, medians"] = DASH
        rows.append(row)
    return table(rows)


def conditions(records: Records) -> str:
    """The options typed in each part, and what is the same for all."""
    rows = []
    for part, title in PARTS.items():
        runs = newest(records, part)
        if not runs or part == "rates":
            continue
        typed = next(iter(runs.values()))[0]["job"]["options"]
        shown = " ".join(
            f"--{name.replace('_', '-')} {value}" for name, value in typed.items() if name != "seed"
        )
        row = {"part": title, "options": f"`{shown}`"}
        for record in [runs_of_name[0] for runs_of_name in finished(runs).values()][:1]:
            row |= {"words": f"{record['result']['words']:,}"}
            if held := record["result"].get("heldout"):
                row |= {
                    "held-out pairs": f"{held['n_pairs']:,}",
                    "pieces": held["n_groups"],
                    "unigram model": f"{held['unigram']:.3f}",
                }
        rows.append(row)
    return table(rows)


def ahead(records: Records) -> str:
    """In each part the likeliest, several if the difference is not significant, and who beats the
    reference.
    """
    rows = []
    for part in ("time", "epochs", "exact"):
        runs, half = (
            (best_points(records), TEST) if part == "time" else (newest(records, part), None)
        )
        if best := likeliest(runs, half=half):
            scores_of = likelihoods(runs, half)
            orders = statistics.orders(scores_of)
            first = [best, *(name for name in scores_of if name != best and not orders[best, name])]
            names = [f"`{name}`" for name in scores_of if orders.get((name, REFERENCE), 0) > 0]
            diverged = [f"`{name}`" for name in runs if name not in finished(runs)]
            top = np.mean([mean_of(record, half) for record in runs[best]])
            rows.append(
                {
                    "part": PARTS[part],
                    "likeliest": ", ".join(f"`{name}`" for name in first),
                    "log-likelihood": f"{top:.3f}",
                    f"significantly likelier than `{REFERENCE}`": ", ".join(names) or "none",
                    "diverged": ", ".join(diverged) or "none",
                }
            )
    return table(rows)


def targets(records: Records) -> str:
    """What was promised, beside what came of it."""
    epochs = newest(records, "epochs")
    rows = newest(records, "rows")
    timed = best_points(records)
    target_rows = []
    for name in WORDSIM_OF:
        if name in epochs and epochs[name][0]["job"]["options"]["epochs"] == PROMISED_EPOCHS:
            promise = f"`{name}`: WordSim-353 at least {WORDSIM:.2f} after {PROMISED_EPOCHS} epochs"
            value = (
                mean(epochs[name], "scores", "WordSim-353") if name in finished(epochs) else -1.0
            )
            target_rows.append(
                target(promise, f"{value:.3f}" if value > -1 else "diverged", value >= WORDSIM)
            )
    for name in rows:
        if name != REFERENCE and REFERENCE in finished(rows):
            limit = SLOWER.get(name, SLOWER_OTHERS)
            ratio = slower(rows, name)
            speed = "diverged" if ratio is None else f"{ratio:.2f} ×"
            promise = f"`{name}`: at equal rows at most {limit:g} × as slow as `{REFERENCE}`"
            target_rows.append(target(promise, speed, ratio is not None and ratio <= limit))
    if losses := lost(by_rate(records).get("implicit", {})):
        worst = max(losses.values())
        promise = f"`implicit`: a tenth to ten times its rate costs at most {ALLOWED:g} nats"
        target_rows.append(target(promise, f"{worst:.3f}", worst <= ALLOWED))
    ours = likeliest(timed, LIKELIER, TEST)
    theirs = likeliest(timed, LESS_LIKELY, TEST)
    if ours and theirs:
        quoted = [", ".join(f"`{name}`" for name in names) for names in (LIKELIER, LESS_LIKELY)]
        likelihood_of = likelihoods(timed, TEST)
        difference = statistics.standings(likelihood_of, theirs)[ours].behind
        target_rows.append(
            target(
                f"at equal time one of {quoted[0]} is significantly likelier than each of"
                f" {quoted[1]}",
                f"`{ours}` minus `{theirs}` {with_error(difference)}",
                statistics.orders(likelihood_of)[ours, theirs] > 0,
            )
        )
    return table(target_rows)


# ---- the picture


def plot(records: Records) -> Any:
    """Log-likelihood by words per second at equal time, or epochs where that was not measured;
    pooled similarity by log-likelihood at equal epochs. What is far below the unigram model is
    drawn at the edge, lest it press all others together.
    """
    timed = finished(best_points(records))
    passed = finished(newest(records, "epochs"))
    if not passed:
        return None
    first, title, half = (
        (timed, "equal time, the best point", TEST) if timed else (passed, "equal epochs", None)
    )
    floor = next(iter(passed.values()))[0]["result"]["heldout"]["unigram"] - 0.2
    reached, at_epochs = (
        {
            name: max(float(np.mean([mean_of(record, part) for record in runs_of_name])), floor)
            for name, runs_of_name in runs.items()
        }
        for runs, part in ((first, half), (passed, None))
    )
    picture, (left, right) = figure(14, 6, 2, dpi=110)
    scatter(
        left,
        {
            name: (fastest(runs_of_name)["result"]["words_per_second"] / 1e6, reached[name])
            for name, runs_of_name in first.items()
        },
    )
    scatter(
        right,
        {
            name: (at_epochs[name], mean(runs_of_name, "pooled", "score"))
            for name, runs_of_name in passed.items()
        },
    )
    left.set(title=title, xlabel="million words per second", ylabel="held-out log-likelihood, nats")
    right.set(
        title="equal epochs", xlabel="held-out log-likelihood, nats", ylabel="pooled similarity"
    )
    return picture


def plot_rates(records: Records) -> Any:
    """Held-out log-likelihood by learning rate, an objective a line; diverged runs leave a gap."""
    results = by_rate(records)
    if not results:
        return None
    picture, (axis,) = figure(8, 5, dpi=100)
    reached = {
        name: [
            (factor, by_factor[factor]["heldout"]["log_likelihood"])
            for factor in sorted(by_factor)
            if "heldout" in by_factor[factor]
        ]
        for name, by_factor in results.items()
    }
    unigram = next(
        result["heldout"]["unigram"]
        for by_factor in results.values()
        for result in by_factor.values()
        if "heldout" in result
    )
    for name, line in reached.items():
        axis.plot(
            *zip(*line, strict=True),
            marker=".",
            label=name,
            linewidth=2.5 if name == "implicit" else 1.2,
        )
    axis.axhline(unigram, color="gray", linestyle=":", label="unigram model")
    axis.set(
        xscale="log",
        xlabel="learning rate, in an objective's own",
        ylabel="held-out log-likelihood, nats",
    )
    axis.set_ylim(bottom=unigram - 0.4)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)
    return picture


def scatter(axes: Any, places: dict[str, tuple[float, float]]) -> None:
    """The points, each with its name, above and below in turn from left to right."""
    axes.scatter(*zip(*places.values(), strict=True), zorder=3)
    axes.margins(0.12)
    axes.grid(alpha=0.3)
    for order, (name, point) in enumerate(sorted(places.items(), key=lambda item: item[1])):
        up = 8 + 10 * (order // 2 % 2)
        axes.annotate(
            name,
            point,
            (0, up if order % 2 else -up),
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=9,
        )


# ---- publishing


def published(records: Records) -> dict[str, Any]:
    """What embedx prints of its objectives: the numbers of the part at equal epochs, means over the
    seeds.
    """
    runs = newest(records, "epochs")
    if not finished(runs) or records.quick:
        raise SystemExit(
            f"{records.path}: nothing of the part `epochs` to publish; measure it first, without"
            " --quick"
        )
    scores_by_name: dict[str, Any] = {}
    for name, runs_of_name in runs.items():
        if name not in finished(runs):
            scores_by_name[name] = {"diverged": True}
        else:
            scores_by_name[name] = {
                "log_likelihood": round(log_likelihood(runs_of_name), 4),
                "wordsim": round(mean(runs_of_name, "scores", "WordSim-353"), 4),
                "analogies": round(mean(runs_of_name, "scores", "Google analogies"), 4),
                "words_per_second": fastest(runs_of_name)["result"]["words_per_second"],
            }
        if name in finished(runs) and all("pooled" in record["result"] for record in runs_of_name):
            scores_by_name[name]["pooled"] = round(mean(runs_of_name, "pooled", "score"), 4)
    first = next(iter(finished(runs).values()))[0]
    environment = records.environment_of(first)
    about = environment["corpus"]
    facts = {
        "corpus": about["name"],
        "words": about["words"],
        "machine": environment["machine"]["cpu"],
        **{name: first["job"]["options"][name] for name in ("threads", "epochs", "heldout")},
        "unigram": round(first["result"]["heldout"]["unigram"], 4),
        "date": max(record["ended"] for runs_of_name in runs.values() for record in runs_of_name)[
            :10
        ],
    }
    return {"about": facts, "objectives": scores_by_name}


def publish(records: Records) -> None:
    """Write the packaged scores, and the tables of docs/objectives.md."""
    written(objectives.MEASURED_FILE, json.dumps(published(records), indent=1) + "\n")
    written(PAGE, filled(PAGE.read_text("utf-8"), hooks.parts(), PAGE))
    print(objectives.MEASURED_FILE, PAGE, sep="\n")
