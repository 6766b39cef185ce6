"""Which output layer makes the best word vectors, and which the likeliest text? All objectives side by side.

Each run is `embedx train CORPUS --objective X` in a process of its own, with the part's options and nothing else typed, so
that it has the defaults that a user gets; how those were tuned, the page says. A record keeps the held-out log-probabilities
summed by span of text, and the pooled similarity of the same resamples of its word pairs, from which any paired difference
follows (`objectives_compared`).

Equal time is ranked by the best point within the budget: of a few numbers of epochs, and of as many as the budget gives, each
a run of its own whose learning rate falls to zero at its end, the one that makes the held-out spans of even number likeliest
with the first seed; it is scored on the spans of odd number, with all seeds. Ranks and errors are those of
`embedx.evaluation.statistics`.
"""

import json
import math
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from eval import corpus, objectives_rates, word_tests
from eval.experiment import ROOT, Experiment, Run, say, written
from eval.objectives_compared import (
    END,
    REFERENCE,
    TEST,
    VALIDATION,
    Runs,
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
    share_of_gap,
    similarities,
    slower,
)
from eval.page import DASH, MEGABYTE, figure, number, table, target, thousands
from eval.records import Job, Record, Records, Result
from eval.speed_process import status
from eval.under_test import (
    Silent,
    TextSettings,
    VocabularySettings,
    as_arguments,
    configure,
    encode,
    heldout,
    hold_out,
    load,
    objectives,
    select,
    statistics,
    word_report,
    words,
)

PARTS = {"time": "equal time", "epochs": "equal epochs", "exact": "beside the exact softmax", "rates": "by learning rate",
         "rows": "equal rows"}  # fmt: skip
EXACT = "softmax"
EXCERPT = 10_000_000  # bytes at the end of the corpus, for the parts exact and rates; the first as many were tuned on
REPORTED = {"WordSim-353": "spearman", "SimLex-999": "spearman", "Google analogies": "accuracy"}
DIVERGED = 3  # the exit code
LOOK = 0.05  # seconds between two looks at the memory of a process
README = ROOT / "README.md"

# What was promised of the defaults.
WORDSIM, PROMISED_EPOCHS = 0.60, 5
WORDSIM_OF = ("ns", "hs", "sampled-softmax", "nce", "ove", "ar", "umax", "implicit")
SLOWER = {"ar-probit": 3.0, "implicit": 3.0, "hs": 2.5}  # at most so many times as slow as the reference at as many rows;
SLOWER_OTHERS = 1.5
LIKELIER = ("ar", "umax", "implicit")  # one of these is to find the held-out text likelier at equal time than each of:
LESS_LIKELY = ("ns", "nce", "ove", "sampled-softmax")


# ---- the jobs


def jobs(run: Run) -> Iterator[Job]:
    """The jobs of each part, objectives in the order of the registry."""
    chosen, own = run.chosen("objective"), run.settings
    threads, epochs = {"threads": own.threads}, {"epochs": own.epochs}
    for part in run.chosen("part"):
        for name in dict.fromkeys([REFERENCE, *chosen] if part == "rows" else chosen):
            if part != "exact" and takes_all_rows(name):
                continue
            if part == "time":
                yield from timed_jobs(run, name)
            elif part == "epochs":
                for seed in seeds(run):
                    yield of_epochs(run, name, own.epochs, seed)
            elif part == "exact":
                options = {**epochs, "max_vocab": own.max_vocab, **threads, "heldout": own.heldout_exact, "seed": 1}
                yield job_of(part, name, options)
            elif part == "rates":
                for options in objectives_rates.options(run, defaults(name)["learning_rate"]):
                    yield job_of(part, name, options)
            else:
                yield job_of(part, name, {"epochs": 1, **threads} | rows_of_reference(run.records, name))


def job_of(part: str, objective: str, options: Job) -> Job:
    return {"part": part, "objective": objective, "options": options, "defaults": defaults(objective)}


def seeds(run: Run) -> range:
    return range(1, run.settings.seeds + 1)


def of_epochs(run: Run, objective: str, epochs: int, seed: int) -> Job:
    """A run of so many epochs: of the part `epochs` where these are its own, so that none is made twice."""
    own = run.settings
    options = {"epochs": epochs, "threads": own.threads, "heldout": own.heldout, "seed": seed}
    return job_of("epochs" if epochs == own.epochs else "time", objective, options)


def to_the_end(run: Run, objective: str, seed: int) -> Job:
    """A run of the whole time."""
    own = run.settings
    budget = f"{60 * own.minutes:g}s"
    return job_of("time", objective, {"time_budget": budget, "threads": own.threads, "heldout": own.heldout, "seed": seed})


def timed_jobs(run: Run, objective: str) -> Iterator[Job]:
    """With the first seed the whole time, then each number of epochs that is expected to fit in; the best of these with all."""
    first, *others = seeds(run)
    end = to_the_end(run, objective, first)
    yield end
    result = run.records.get(end) or {}
    for epochs in own_epochs(run):
        if epochs < result.get("epochs", 0):
            yield of_epochs(run, objective, epochs, first)
    best = best_label(points(run.records).get(objective, {}))
    for seed in others:
        if best is not None:
            yield to_the_end(run, objective, seed) if best == END else of_epochs(run, objective, int(best), seed)


def own_epochs(run: Run) -> list[int]:
    """The numbers of epochs that are tried."""
    return [int(epochs) for epochs in str(run.settings.tried).split("/")]


def takes_all_rows(objective: str) -> bool:
    """Whether an objective is defined on every row, so that it is measured only where the vocabulary is small."""
    return bool(objectives.find(objective).samplers()[0] == "all")


def defaults(objective: str) -> dict[str, Any]:
    """What a user gets who types --objective alone, the sampler's own settings among it: a run with others is another run."""
    found = configure(objective, {})
    return dict(found.settings.record() | found.new_sampler().settings.record() | found.objective.settings.record())


def rows_of_reference(records: Records, objective: str) -> Job:
    """Options that make an objective score as many drawn rows as the reference did, as often shared."""
    if objective == REFERENCE or "negatives" not in objectives.find(objective).Settings().record():
        return {}
    settings = records.find(part="rows", objective=REFERENCE)[-1]["result"]["settings"]
    return {name: settings[name] for name in ("negatives", "block_size", "draws")}


# ---- one run, from the command to its scores


def prepare(run: Run) -> dict[str, Any]:
    """The corpus, a little of it, and its end."""
    about = corpus.unpacked(run)
    with Path(run.files["text"]).open("rb") as text:
        text.seek(-min(EXCERPT, about["bytes"]), 2)
        end = text.read()
    (run.folder / "excerpt").write_bytes(end[end.find(b" ") + 1 :])
    return {"corpus": about}


def measure(run: Run, job: Job) -> Result:
    if job["objective"] not in run.warm:  # compilation would count as memory
        trained(run, job["objective"], {"epochs": 1, "threads": 1}, "tiny")
        run.warm.add(job["objective"])
    return trained(run, job["objective"], job["options"], "excerpt" if job["part"] in ("exact", "rates") else "text")


def trained(run: Run, objective: str, options: Job, text: str) -> Result:
    """Train one model by the command line, and score it. Ends the program where training fails; to diverge is a result."""
    model, log = run.folder / "model", run.folder / "log"
    log.unlink(missing_ok=True)
    typed = as_arguments(options)
    places = ["--output", str(model), "--overwrite", "--cache-dir", str(run.folder / "tokens"), "--log-json", str(log)]
    command = [sys.executable, "-m", "embedx", "train", str(run.folder / text), "--objective", objective, *typed, *places]
    begun = time.perf_counter()
    code, output, complaints, peak = watched([*command, "--json"], log)
    whole = time.perf_counter() - begun
    if code == DIVERGED:
        return {"diverged": complaints.strip().splitlines()[-1].removeprefix("embedx: ")}
    if code:
        raise SystemExit(f"{complaints[-3000:]}\n`embedx train --objective {objective}` failed; --resume continues from here")
    facts = json.loads(output.splitlines()[-1])
    if "learning_rate_lowered" in facts:
        return {"diverged": f"the learning rate was lowered to {facts['learning_rate_lowered'][-1]:.3g}"}
    kept = ("settings", "epochs", "seconds", "words_per_second", "words")
    result = {name: facts[name] for name in kept} | {"loss": facts["final_loss"], "highest_loss": facts["highest_loss"]}
    result |= {"whole": round(whole, 1), "peak_rss": peak}
    if "heldout" in facts:
        vectors = load(model)
        result["heldout"] = facts["heldout"] | by_group(likelihood(run, vectors, text))
        answers = words.score(vectors, test_sets(run))
        result["scores"] = {each.test.name: each.score for each in answers}
        result |= word_tests.pooled(answers) | objectives_rates.spread_of_lengths(vectors.vectors)
    return result


def watched(command: list[str], log: Path) -> tuple[int, str, str, int]:
    """Exit code, output, complaints, and the most memory in bytes that was resident until `log` was last written to.

    That is the end of training: what scoring the held-out text takes is the same for all objectives, and not theirs.
    """
    outputs = [log.with_name(name) for name in ("output", "complaints")]
    seen: list[tuple[float, int]] = []  # time.time(), bytes
    with outputs[0].open("wb") as out, outputs[1].open("wb") as err:
        process = subprocess.Popen(command, stdout=out, stderr=err, cwd=ROOT)
        try:
            while process.poll() is None:
                seen.append((time.time(), status("VmHWM", process.pid)))
                time.sleep(LOOK)
        finally:
            process.kill()  # where we were interrupted
            process.wait()
    ended = log.stat().st_mtime if log.exists() else time.time()
    peak = max((size for when, size in seen if when <= ended), default=0)
    return process.returncode, *(file.read_text("utf-8", errors="replace") for file in outputs), peak


def test_sets(run: Run) -> list[Any]:
    """The tests; those in the data only where it holds them."""
    data = run.data if run.has_data else None
    if missing := word_tests.POOLED.keys() - word_tests.pair_files(data).keys():
        say(f"{', '.join(sorted(missing))}: left out, for the folder wordsim of the data has no such file")
    return word_tests.tests(data)


def likelihood(run: Run, vectors: Any, text: str) -> Any:
    """What `embedx train` printed as `heldout`, with the log-probability of each pair: the same held-out pairs."""
    options = vectors.settings
    settings, vocabulary = TextSettings.from_options(options), VocabularySettings.from_options(options)
    with encode([str(run.folder / text)], settings, Silent(), run.folder / "tokens") as encoded:
        held = hold_out(encoded.tokens, select(encoded, vocabulary)[1], options["heldout"])
    pairs, calibration = heldout.draw(held.words, held.sentences, vectors, groups=held.spans)
    return heldout.evaluate(vectors, pairs, calibration)


def by_group(found: Any) -> dict[str, list[Any]]:
    """The sums of the log-probabilities by group, with numbers and sizes of the groups: enough for any paired difference."""
    numbers, group = np.unique(found.groups, return_inverse=True)
    sums = np.bincount(group, found.values)
    return {
        "groups": numbers.tolist(), "sums": [round(value, 6) for value in sums.tolist()], "sizes": np.bincount(group).tolist()
    }  # fmt: skip


# ---- tables


def of_part(part: str, records: Records) -> str:
    """The table of likelihood, word tests and speed of one part; numbers are means over the seeds."""
    runs = newest(records, part)
    exact = finished(runs).get(EXACT)
    likelihood_of = likelihoods(runs)
    stands, similar = statistics.standings(likelihood_of, REFERENCE), statistics.standings(similarities(runs))
    beside_exact = statistics.standings(likelihood_of, EXACT)
    rows = []
    for name, each in runs.items():
        row: dict[str, Any] = {"objective": f"`{name}`"}
        rows.append(row)
        if name not in stands:
            row["log-likelihood"] = "diverged"
            continue
        held, share = each[0]["result"]["heldout"], share_of_gap(each, exact)
        row["log-likelihood"] = f"{log_likelihood(each):.3f} ± {held['standard_error']:.3f}"
        row["rank"] = stands[name].rank
        if part == "exact":
            row["share of the gap"] = "-" if share is None else f"{100 * share:.1f} %"
            row[f"minus {EXACT}"] = with_error(beside_exact[name].behind if exact else None)
        row[f"minus {REFERENCE}"] = with_error(stands[name].behind if REFERENCE in stands else None)
        row |= {
            "after temperature": number(mean(each, "heldout", "calibrated")),
            "T": number(mean(each, "heldout", "temperature"), 2),
        }
        if name in similar:
            row |= {"pooled similarity": number(mean(each, "pooled", "score")), "rank by it": similar[name].rank}
        row |= {test: score(each, test, measure) for test, measure in REPORTED.items()}
        row |= {
            "words/s": thousands(fastest(each)["result"]["words_per_second"]), "s": f"{fastest(each)['result']['seconds']:.0f}",
            "epochs": f"{mean(each, 'epochs'):.1f}", "MB": f"{mean(each, 'peak_rss') / MEGABYTE:,.0f}",
            "loss": number(mean(each, "loss")), "seeds": len(each),
        }  # fmt: skip
        row |= {f"tuned on: {test}": score(each, test, "spearman") for test in word_tests.TUNED_ON}
    return table(rows)


def equal_time(records: Records) -> str:
    """Each objective's best point within the time, and what it came to at the end; the likeliest first."""
    found = points(records)
    labels = {name: best_label(of) or END for name, of in found.items()}
    runs = {name: of[labels[name]] for name, of in found.items()}
    likelihood_of = likelihoods(runs, TEST)
    stands, similar = statistics.standings(likelihood_of), statistics.standings(similarities(runs))
    orders = statistics.orders(likelihood_of)
    rows: list[dict[str, Any]] = []
    for name, stand in stands.items():
        best, end = runs[name], found[name][END]
        same = [f"`{other}`" for other in stands if other != name and not orders[name, other]]
        row = {
            "rank": stand.rank, "objective": f"`{name}`", "epochs": f"{mean(best, 'epochs'):.1f}",
            "s": f"{mean(best, 'seconds'):.0f}", "log-likelihood": number(stand.score.value),
            "minus the first": with_error(stand.behind), "not told apart from": ", ".join(same) or "-",
            "validation": number(float(np.mean([mean_of(each, VALIDATION) for each in best]))),
            "pooled similarity": number(mean(best, "pooled", "score")),
            "rank by it": similar[name].rank if name in similar else DASH,
            "words/s": thousands(fastest(best)["result"]["words_per_second"]),
        }  # fmt: skip
        row |= {test: score(best, test, measure) for test, measure in REPORTED.items()}
        is_end = labels[name] == END
        if "diverged" not in end[0]["result"]:
            row |= {"at the end: epochs": f"{mean(end, 'epochs'):.1f}",
                    "at the end: log-likelihood": "the same" if is_end else number(mean_of(end[0], TEST)),
                    "at the end: pooled": "the same" if is_end else number(mean(end[:1], "pooled", "score"))}  # fmt: skip
        row |= {"tried, epochs": ", ".join(sorted((label for label in found[name] if label != END), key=int)) or "-",
                "MB": f"{mean(best, 'peak_rss') / MEGABYTE:,.0f}", "seeds": len(best)}  # fmt: skip
        rows.append(row)
    rows += [{"objective": f"`{name}`", "log-likelihood": "diverged"} for name in runs if name not in stands]
    return table(rows)


def score(runs: list[Record], test: str, measure: str) -> str:
    value = mean(runs, "scores", test)
    return "-" if math.isnan(value) else str(word_report.shown(measure, value))


def with_error(difference: Any) -> str:
    return "-" if difference is None else f"{difference.value:+.3f} ± {difference.error:.3f}"


def equal_rows(records: Records) -> str:
    """Words per second where each objective scores as many rows as the reference."""
    rows, runs = [], newest(records, "rows")
    for name, of in runs.items():
        result, ratio = of[-1]["result"], slower(runs, name)
        settings = result.get("settings", {})
        names = {"negatives": "negatives", "block size": "block_size", "draws": "draws"}
        drawn = {title: settings[name] if settings.get("draws") else "-" for title, name in names.items()}
        speed = "diverged" if "diverged" in result else thousands(result["words_per_second"])
        rows.append({"objective": f"`{name}`", **drawn, "words/s": speed, f"{REFERENCE} is × as fast": number(ratio, 2)})
    return table(rows)


def conditions(records: Records) -> str:
    """The options typed in each part, and what is the same for all."""
    rows = []
    for part, title in PARTS.items():
        runs = newest(records, part)
        if not runs or part == objectives_rates.PART:
            continue
        typed = next(iter(runs.values()))[0]["job"]["options"]
        shown = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in typed.items() if name != "seed")
        row = {"part": title, "options": f"`{shown}`"}
        for each in [of[0] for of in finished(runs).values()][:1]:
            row |= {"words": f"{each['result']['words']:,}"}
            if held := each["result"].get("heldout"):
                row |= {"held-out pairs": f"{held['n_pairs']:,}", "pieces": held["n_groups"],
                        "unigram model": f"{held['unigram']:.3f}"}  # fmt: skip
        rows.append(row)
    return table(rows)


def ahead(records: Records) -> str:
    """In each part the likeliest, several if the difference is not significant, and who beats the reference."""
    rows = []
    for part in ("time", "epochs", "exact"):
        runs, half = (best_points(records), TEST) if part == "time" else (newest(records, part), None)
        if best := likeliest(runs, half=half):
            found = likelihoods(runs, half)
            orders = statistics.orders(found)
            first = [best, *(name for name in found if name != best and not orders[best, name])]
            names = [f"`{name}`" for name in found if orders.get((name, REFERENCE), 0) > 0]
            lost = [f"`{name}`" for name in runs if name not in finished(runs)]
            top = np.mean([mean_of(each, half) for each in runs[best]])
            rows.append({
                "part": PARTS[part], "likeliest": ", ".join(f"`{name}`" for name in first), "log-likelihood": f"{top:.3f}",
                f"significantly likelier than `{REFERENCE}`": ", ".join(names) or "none",
                "diverged": ", ".join(lost) or "none",
            })  # fmt: skip
    return table(rows)


def targets(records: Records) -> str:
    """What was promised, beside what came of it."""
    epochs, rows, timed = newest(records, "epochs"), newest(records, "rows"), best_points(records)
    found = []
    for name in WORDSIM_OF:
        if name in epochs and epochs[name][0]["job"]["options"]["epochs"] == PROMISED_EPOCHS:
            promise = f"`{name}`: WordSim-353 at least {WORDSIM:.2f} after {PROMISED_EPOCHS} epochs"
            value = mean(epochs[name], "scores", "WordSim-353") if name in finished(epochs) else -1.0
            found.append(target(promise, f"{value:.3f}" if value > -1 else "diverged", value >= WORDSIM))
    for name in rows:
        if name != REFERENCE and REFERENCE in finished(rows):
            limit, ratio = SLOWER.get(name, SLOWER_OTHERS), slower(rows, name)
            speed = "diverged" if ratio is None else f"{ratio:.2f} ×"
            promise = f"`{name}`: at equal rows at most {limit:g} × as slow as `{REFERENCE}`"
            found.append(target(promise, speed, ratio is not None and ratio <= limit))
    if losses := objectives_rates.lost(objectives_rates.by_rate(records).get("implicit", {})):
        worst = max(losses.values())
        promise = f"`implicit`: a tenth to ten times its rate costs at most {objectives_rates.ALLOWED:g} nats"
        found.append(target(promise, f"{worst:.3f}", worst <= objectives_rates.ALLOWED))
    ours, theirs = likeliest(timed, LIKELIER, TEST), likeliest(timed, LESS_LIKELY, TEST)
    if ours and theirs:
        quoted = [", ".join(f"`{name}`" for name in names) for names in (LIKELIER, LESS_LIKELY)]
        likelihood_of = likelihoods(timed, TEST)
        difference = statistics.standings(likelihood_of, theirs)[ours].behind
        found.append(target(
            f"at equal time one of {quoted[0]} is significantly likelier than each of {quoted[1]}",
            f"`{ours}` minus `{theirs}` {with_error(difference)}", statistics.orders(likelihood_of)[ours, theirs] > 0,
        ))  # fmt: skip
    return table(found)


# ---- the picture


def plot(records: Records) -> Any:
    """Log-likelihood by words per second at equal time, or epochs where that was not measured; similarity by log-likelihood at
    equal epochs. None without these.
    """
    timed, passed = finished(best_points(records)), finished(newest(records, "epochs"))
    if not passed:
        return None
    first, title, half = (timed, "equal time, the best point", TEST) if timed else (passed, "equal epochs", None)
    has_pooled = all("pooled" in each["result"] for of in passed.values() for each in of)
    picture, (left, right) = figure(14, 6, 2, dpi=110, layout=None)
    left.set(title=title, xlabel="million words per second", ylabel="held-out log-likelihood, nats")
    similarity_of = ("pooled", "score") if has_pooled else ("scores", "WordSim-353")
    right.set(title="equal epochs", xlabel="held-out log-likelihood, nats",
              ylabel="pooled similarity" if has_pooled else "WordSim-353")  # fmt: skip
    picture.subplots_adjust(left=0.06, right=0.99, bottom=0.09, top=0.94, wspace=0.16)
    floors = [lowest_shown(runs) for runs in (first, passed)]
    speed = {name: fastest(of)["result"]["words_per_second"] / 1e6 for name, of in first.items()}
    reached = [{name: float(np.mean([mean_of(each, half) for each in of])) for name, of in runs.items()}
               for runs, half in ((first, half), (passed, None))]  # fmt: skip
    similar = {name: mean(of, *similarity_of) for name, of in passed.items()}
    scatter(
        left, {name + beneath(value, floors[0]): (speed[name], max(value, floors[0])) for name, value in reached[0].items()}
    )
    scatter(right, {name + beneath(value, floors[1]): (max(value, floors[1]), similar[name])
                    for name, value in reached[1].items() if not math.isnan(similar[name])})  # fmt: skip
    return picture


def lowest_shown(runs: Runs) -> float:
    """What is less likely is drawn here, lest one outlier press all others together: a little below the unigram model."""
    return float(next(iter(runs.values()))[0]["result"]["heldout"]["unigram"] - 0.2)


def beneath(value: float, floor: float) -> str:
    """The true value for the label of a point that is not drawn where it belongs."""
    return f" (at {value:.2f})" if value < floor else ""


def scatter(axes: Any, points: dict[str, tuple[float, float]]) -> None:
    """The points, each with its name, above and below in turn from left to right."""
    axes.scatter(*zip(*points.values(), strict=True), zorder=3)
    axes.margins(0.12)
    axes.grid(alpha=0.3)
    for order, (name, point) in enumerate(sorted(points.items(), key=lambda each: each[1])):
        up = 8 + 10 * (order // 2 % 2)
        axes.annotate(
            name, point, (0, up if order % 2 else -up), textcoords="offset points", ha="center", va="center", fontsize=9
        )


# ---- publishing


def published(records: Records) -> dict[str, Any]:
    """What embedx prints of its objectives: the numbers of the part at equal epochs, means over the seeds."""
    runs, about = newest(records, "epochs"), records.environment["corpus"]
    if not finished(runs) or records.quick:
        raise SystemExit(f"{records.path}: nothing of the part `epochs` to publish; measure it first, without --quick")
    found: dict[str, Any] = {}
    for name, of in runs.items():
        found[name] = {"diverged": True} if name not in finished(runs) else {
            "log_likelihood": round(log_likelihood(of), 4), "wordsim": round(mean(of, "scores", "WordSim-353"), 4),
            "analogies": round(mean(of, "scores", "Google analogies"), 4),
            "words_per_second": fastest(of)["result"]["words_per_second"],
        }  # fmt: skip
        if name in finished(runs) and all("pooled" in each["result"] for each in of):
            found[name]["pooled"] = round(mean(of, "pooled", "score"), 4)
    first = next(iter(finished(runs).values()))[0]
    facts = {
        "corpus": about["name"], "words": about["words"], "machine": records.environment["machine"]["cpu"],
        **{name: first["job"]["options"][name] for name in ("threads", "epochs", "heldout")},
        "unigram": round(first["result"]["heldout"]["unigram"], 4),
        "date": max(each["ended"] for of in runs.values() for each in of)[:10],
    }  # fmt: skip
    return {"about": facts, "objectives": found}


def publish(records: Records) -> None:
    """Write the packaged scores, and the README's table anew."""
    written(objectives.MEASURED_FILE, json.dumps(published(records), indent=1) + "\n")
    marks = r"(<!-- table of objectives -->\n).*?(\n<!-- end of the table -->)"
    text = re.sub(marks, lambda m: m[1] + objectives.markdown_table() + m[2], README.read_text("utf-8"), flags=re.DOTALL)
    written(README, text)
    print(objectives.MEASURED_FILE, README, sep="\n")


EXPERIMENT = Experiment(
    name="objectives",
    title="Objectives of skip-gram, side by side",
    choices={"part": tuple(PARTS), "objective": tuple(objectives.OBJECTIVES)},
    settings={"corpus": None, "minutes": 1, "epochs": 5, "tried": "3/5/10/20", "seeds": 3, "threads": 2, "heldout": "1%",
              "heldout_exact": "4%", "max_vocab": 5000},
    quick={"minutes": 0.05, "epochs": 1, "tried": "1/2", "seeds": 2, "heldout": "5%", "heldout_exact": "5%", "max_vocab": 500},
    packages=("gensim",),
    prepare=prepare,
    jobs=jobs,
    measure=measure,
    tables={"ahead": ahead, "targets": targets, "conditions": conditions,
            "time": equal_time, **{part: partial(of_part, part) for part in ("epochs", "exact")},
            "rates": objectives_rates.rates, "rows": equal_rows},
    plots={"": plot, "-rates": objectives_rates.plot},
    publish=publish,
)  # fmt: skip
