"""Which output layer makes the best word vectors, and which the likeliest text? All objectives side by side.

Each run is `embedx train CORPUS --objective X` in a process of its own, with the part's options and nothing else typed, so that
it has the defaults that a user gets. Those were tuned on the first 10 MB of the corpus by held-out log-likelihood, MTurk-287
and RG-65, which are told in columns of their own. A record keeps the held-out log-probabilities summed by piece of text, from
which any paired difference follows.
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

from eval import corpus
from eval.experiment import ROOT, Experiment, Run, say, written
from eval.page import MEGABYTE, figure, number, table, target, thousands
from eval.records import Job, Record, Records, Result
from eval.under_test import (
    Silent,
    TextSettings,
    VocabularySettings,
    encode,
    heldout,
    hold_out,
    load,
    objectives,
    option_name,
    select,
    skipgram,
    words,
)

Runs = dict[str, Record]  # by objective, in the order of the registry

PARTS = {"time": "equal time", "epochs": "equal epochs", "exact": "beside the exact softmax", "rows": "equal rows"}
REFERENCE, EXACT = "ns", "softmax"
EXCERPT = 10_000_000  # bytes at the end of the corpus, for the part exact; the first as many were tuned on
REPORTED = {"WordSim-353": "spearman", "SimLex-999": "spearman", "Google analogies": "accuracy"}
TUNED_ON = {"MTurk-287": "EN-MTurk-287.txt", "RG-65": "EN-RG-65.txt"}  # in the folder wordsim of the data
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
    typed: dict[str, Job] = {
        "time": {"time_budget": f"{60 * own.minutes:g}s", **threads, "heldout": own.heldout},
        "epochs": {**epochs, **threads, "heldout": own.heldout},
        "exact": {**epochs, "max_vocab": own.max_vocab, **threads, "heldout": own.heldout_exact},
        "rows": {"epochs": 1, **threads},
    }
    for part in run.chosen("part"):
        for name in dict.fromkeys([REFERENCE, *chosen] if part == "rows" else chosen):
            if part == "exact" or not meets_all_rows(name):
                more = rows_of_reference(run.records, name) if part == "rows" else {}
                yield {"part": part, "objective": name, "options": typed[part] | more, "defaults": defaults(name)}


def meets_all_rows(objective: str) -> bool:
    """Whether an objective is made to meet every row, so that it is measured only where the vocabulary is small."""
    return bool(objectives.find(objective).samplers()[0] == "all")


def defaults(objective: str) -> dict[str, Any]:
    """What a user gets who types --objective alone, the sampler's own settings among it: a run with others is another run."""
    settings, found = skipgram.chosen(objectives.find(objective), {})
    sampler, warm_up = skipgram.chosen_samplers(found, settings, {})
    return dict(settings.record() | (warm_up or sampler).settings.record() | found.settings.record())


def rows_of_reference(records: Records, objective: str) -> Job:
    """Options that make an objective meet as many drawn rows as the reference did, as often shared."""
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
    return trained(run, job["objective"], job["options"], "excerpt" if job["part"] == "exact" else "text")


def trained(run: Run, objective: str, options: Job, text: str) -> Result:
    """Train one model by the command line, and score it. Ends the program where training fails; to diverge is a result."""
    model, log = run.folder / "model", run.folder / "log"
    log.unlink(missing_ok=True)
    typed = [word for name, value in options.items() for word in (option_name(name), str(value))]
    places = ["--output", str(model), "--overwrite", "--cache-dir", str(run.folder / "tokens"), "--log-json", str(log)]
    command = [sys.executable, "-m", "embedx", "train", str(run.folder / text), "--objective", objective, *typed, *places]
    begun = time.perf_counter()
    code, told, complaints, peak = watched([*command, "--json"], log)
    whole = time.perf_counter() - begun
    if code == DIVERGED:
        return {"diverged": complaints.strip().splitlines()[-1].removeprefix("embedx: ")}
    if code:
        raise SystemExit(f"{complaints[-3000:]}\n`embedx train --objective {objective}` failed; --resume goes on from here")
    facts = json.loads(told.splitlines()[-1])
    kept = ("settings", "epochs", "seconds", "words_per_second", "words")
    result = {name: facts[name] for name in kept} | {"loss": facts["final_loss"], "highest_loss": facts["highest_loss"]}
    result |= {"whole": round(whole, 1), "peak_rss": peak}
    if "heldout" in facts:
        vectors = load(model)
        result["heldout"] = facts["heldout"] | by_group(likelihood(run, vectors, text))
        result["scores"] = {each.test.name: each.score for each in words.score(vectors, tests(run))}
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
                seen.append((time.time(), peak_rss(process.pid)))
                time.sleep(LOOK)
        finally:
            process.kill()  # where we were interrupted
            process.wait()
    ended = log.stat().st_mtime if log.exists() else time.time()
    peak = max((size for when, size in seen if when <= ended), default=0)
    return process.returncode, *(file.read_text("utf-8", errors="replace") for file in outputs), peak


def peak_rss(pid: int) -> int:
    """The most memory a process ever had resident, in bytes; 0 where there is no /proc or the process is gone.

    The operating system's own account, getrusage, begins with the memory of the parent.
    """
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), 0)


def tests(run: Run) -> list[Any]:
    """What is reported on, then what was tuned on if the data hold it."""
    files = {name: run.data / "wordsim" / file for name, file in TUNED_ON.items()} if run.has_data else {}
    if missing := [name for name in TUNED_ON if name not in files or not files[name].is_file()]:
        say(f"{', '.join(missing)}: left out, for the folder wordsim of the data has no such file")
    return words.default_tests() + [words.read_pairs(file, name) for name, file in files.items() if file.is_file()]


def likelihood(run: Run, vectors: Any, text: str) -> Any:
    """What `embedx train` told as `heldout`, with the log-probability of each pair: the same text held out, the same pairs."""
    options = vectors.settings
    settings, vocabulary = TextSettings.from_options(options), VocabularySettings.from_options(options)
    with encode([str(run.folder / text)], settings, Silent(), run.folder / "tokens") as encoded:
        held = hold_out(encoded.tokens, select(encoded, vocabulary)[1], options["heldout"])
    pairs, calibration = heldout.draw(held.words, held.groups, vectors)
    return heldout.evaluate(vectors, pairs, calibration)


def by_group(found: Any) -> dict[str, list[Any]]:
    """The sums of the log-probabilities by group and the sizes of the groups: enough for any paired difference."""
    _, group = np.unique(found.groups, return_inverse=True)
    sums = np.bincount(group, found.values)
    return {"sums": [round(value, 6) for value in sums.tolist()], "sizes": np.bincount(group).tolist()}


# ---- what the records say


def newest(records: Records, part: str) -> Runs:
    """The last run of each objective, with the options of the part's last run; those differ by objective in the part `rows`."""
    found = records.find(part=part)
    options = found[-1]["job"]["options"] if found else {}
    last = {each["job"]["objective"]: each for each in found if part == "rows" or each["job"]["options"] == options}
    return {name: last[name] for name in objectives.OBJECTIVES if name in last}


def finished(runs: Runs) -> Runs:
    """Those that did not diverge."""
    return {name: each for name, each in runs.items() if "diverged" not in each["result"]}


def paired(a: Record | None, b: Record | None) -> Any:
    """How much likelier the first run finds the same pairs, as `embedx.evaluation.heldout.compare` has it, from the sums of the
    groups; None where one is missing or diverged, or the pairs are others.
    """
    if a is None or b is None or "diverged" in a["result"] or "diverged" in b["result"]:
        return None
    ours, theirs = a["result"]["heldout"], b["result"]["heldout"]
    if ours["sizes"] != theirs["sizes"]:
        return None
    gains, sizes = np.subtract(ours["sums"], theirs["sums"]), np.array(ours["sizes"])
    mean = gains.sum() / sizes.sum()
    left, n = gains - sizes * mean, len(sizes)
    error = math.sqrt(n / (n - 1) * float(left @ left)) / sizes.sum() if n > 1 else math.nan
    return heldout.LikelihoodDifference(float(mean), float(error))


def share_of_gap(each: Record, exact: Record | None) -> float | None:
    """(LL - unigram) / (LL of the exact softmax - unigram); None where the exact softmax leaves no gap to close."""
    if exact is None:
        return None
    ours, best = each["result"]["heldout"], exact["result"]["heldout"]
    gap = best["log_likelihood"] - best["unigram"]
    return float((ours["log_likelihood"] - ours["unigram"]) / gap) if gap > 0 else None


def log_likelihood(each: Record) -> float:
    return float(each["result"]["heldout"]["log_likelihood"])


def likeliest(runs: Runs, among: tuple[str, ...] | None = None) -> str | None:
    """The objective under which the held-out text is likeliest."""
    found = finished(runs)
    names = [name for name in (found if among is None else among) if name in found]
    return max(names, key=lambda name: log_likelihood(found[name]), default=None)


def slower(runs: Runs, name: str) -> float | None:
    """How many times as fast the reference is."""
    done = finished(runs)
    if name not in done or REFERENCE not in done:
        return None
    return float(done[REFERENCE]["result"]["words_per_second"] / done[name]["result"]["words_per_second"])


# ---- tables


def of_part(part: str, records: Records) -> str:
    """The table of likelihood, word tests and speed of one part."""
    runs = newest(records, part)
    exact = finished(runs).get(EXACT)
    rows = []
    for name, each in runs.items():
        result, row = each["result"], {"objective": f"`{name}`"}
        rows.append(row)
        if "diverged" in result:
            row["log-likelihood"] = "diverged"
            continue
        held, share = result["heldout"], share_of_gap(each, exact)
        row["log-likelihood"] = f"{held['log_likelihood']:.3f} ± {held['standard_error']:.3f}"
        if part == "exact":
            row["share of the gap"] = "-" if share is None else f"{100 * share:.1f} %"
            row[f"minus {EXACT}"] = minus(each, exact)
        row[f"minus {REFERENCE}"] = minus(each, runs.get(REFERENCE))
        row |= {"after temperature": number(held["calibrated"]), "T": number(held["temperature"], 2)}
        row |= {test: score(result, test, measure) for test, measure in REPORTED.items()}
        row |= {
            "words/s": thousands(result["words_per_second"]), "s": f"{result['seconds']:.0f}",
            "epochs": f"{result['epochs']:.1f}", "MB": f"{result['peak_rss'] / MEGABYTE:,.0f}",
            "loss": number(result["loss"]),
        }  # fmt: skip
        row |= {f"tuned on: {test}": score(result, test, "spearman") for test in TUNED_ON}
    return table(rows)


def score(result: Result, test: str, measure: str) -> str:
    value = result["scores"].get(test)
    return "-" if value is None or math.isnan(value) else str(words.shown(measure, value))


def minus(each: Record, other: Record | None) -> str:
    found = None if each is other else paired(each, other)
    return "-" if found is None else f"{found.log_likelihood:+.3f} ± {found.standard_error:.3f}"


def equal_rows(records: Records) -> str:
    """Words per second where each objective meets as many rows as the reference."""
    rows, runs = [], newest(records, "rows")
    for name, each in runs.items():
        result, ratio = each["result"], slower(runs, name)
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
        if not runs:
            continue
        typed = next(iter(runs.values()))["job"]["options"]
        row = {"part": title, "options": "`" + " ".join(f"--{k.replace('_', '-')} {v}" for k, v in typed.items()) + "`"}
        for each in list(finished(runs).values())[:1]:
            row |= {"words": f"{each['result']['words']:,}"}
            if held := each["result"].get("heldout"):
                row |= {"held-out pairs": f"{held['n_pairs']:,}", "pieces": held["n_groups"],
                        "unigram model": f"{held['unigram']:.3f}"}  # fmt: skip
        rows.append(row)
    return table(rows)


def ahead(records: Records) -> str:
    """In each part the likeliest, and who beats the reference by more than two standard errors."""
    rows = []
    for part in ("time", "epochs", "exact"):
        runs = newest(records, part)
        if best := likeliest(runs):
            found = {name: paired(each, runs.get(REFERENCE)) for name, each in runs.items() if name != REFERENCE}
            names = [f"`{name}`" for name, gain in found.items() if gain and gain.log_likelihood > 2 * gain.standard_error]
            lost = [f"`{name}`" for name in runs if name not in finished(runs)]
            rows.append({
                "part": PARTS[part], "likeliest": f"`{best}`", "log-likelihood": f"{log_likelihood(runs[best]):.3f}",
                f"likelier than `{REFERENCE}` by more than two standard errors": ", ".join(names) or "none",
                "diverged": ", ".join(lost) or "none",
            })  # fmt: skip
    return table(rows)


def targets(records: Records) -> str:
    """What was promised, beside what came of it."""
    epochs, rows, timed = (newest(records, part) for part in ("epochs", "rows", "time"))
    found = []
    for name in WORDSIM_OF:
        if name in epochs and epochs[name]["job"]["options"]["epochs"] == PROMISED_EPOCHS:
            promise = f"`{name}`: WordSim-353 at least {WORDSIM:.2f} after {PROMISED_EPOCHS} epochs"
            result = epochs[name]["result"]
            value = result["scores"]["WordSim-353"] if "scores" in result else -1.0
            found.append(target(promise, f"{value:.3f}" if value > -1 else "diverged", value >= WORDSIM))
    for name in rows:
        if name != REFERENCE and REFERENCE in finished(rows):
            limit, ratio = SLOWER.get(name, SLOWER_OTHERS), slower(rows, name)
            told = "diverged" if ratio is None else f"{ratio:.2f} ×"
            promise = f"`{name}`: at equal rows at most {limit:g} × as slow as `{REFERENCE}`"
            found.append(target(promise, told, ratio is not None and ratio <= limit))
    ours, theirs = likeliest(timed, LIKELIER), likeliest(timed, LESS_LIKELY)
    if ours and theirs:
        quoted = [", ".join(f"`{name}`" for name in names) for names in (LIKELIER, LESS_LIKELY)]
        values = [f"`{name}` {log_likelihood(timed[name]):.3f}" for name in (ours, theirs)]
        told = f"{', '.join(values)}, difference {minus(timed[ours], timed[theirs])}"
        found.append(target(
            f"at equal time one of {quoted[0]} is likelier than each of {quoted[1]}", told,
            log_likelihood(timed[ours]) > log_likelihood(timed[theirs]),
        ))  # fmt: skip
    return table(found)


# ---- the picture


def plot(records: Records) -> Any:
    """Log-likelihood by words per second at equal time, WordSim by log-likelihood at equal epochs; None without both parts."""
    timed, passed = finished(newest(records, "time")), finished(newest(records, "epochs"))
    if not timed or not passed:
        return None
    picture, (left, right) = figure(14, 6, 2, dpi=110, layout=None)
    left.set(title="equal time", xlabel="million words per second", ylabel="held-out log-likelihood, nats")
    right.set(title="equal epochs", xlabel="held-out log-likelihood, nats", ylabel="WordSim-353")
    picture.subplots_adjust(left=0.06, right=0.99, bottom=0.09, top=0.94, wspace=0.16)
    floors = [lowest_shown(runs) for runs in (timed, passed)]
    speed = {name: each["result"]["words_per_second"] / 1e6 for name, each in timed.items()}
    similarity = {name: each["result"]["scores"]["WordSim-353"] for name, each in passed.items()}
    scatter(left, {name + beneath(each, floors[0]): (speed[name], max(log_likelihood(each), floors[0]))
                   for name, each in timed.items()})  # fmt: skip
    scatter(right, {name + beneath(each, floors[1]): (max(log_likelihood(each), floors[1]), similarity[name])
                    for name, each in passed.items() if not math.isnan(similarity[name])})  # fmt: skip
    return picture


def lowest_shown(runs: Runs) -> float:
    """What is less likely is drawn here, lest one outlier press all others together: a little below the unigram model."""
    return float(next(iter(runs.values()))["result"]["heldout"]["unigram"] - 0.2)


def beneath(each: Record, floor: float) -> str:
    """The true value for the label of a point that is not drawn where it belongs."""
    return f" (at {log_likelihood(each):.2f})" if log_likelihood(each) < floor else ""


def scatter(axes: Any, points: dict[str, tuple[float, float]]) -> None:
    """The points, each with its name at the first place about it where no other point or name is."""
    axes.scatter(*zip(*points.values(), strict=True), zorder=3)
    axes.margins(0.12)
    axes.grid(alpha=0.3)
    axes.figure.draw_without_rendering()  # settles the scales
    places = {name: axes.transData.transform(point) for name, point in points.items()}
    from matplotlib.text import Text

    inside, taken = axes.get_window_extent(), list[Any]()
    for name, point in points.items():
        for dx, dy in offsets():
            side = "left" if dx > 0 else "right" if dx < 0 else "center"
            line = {"arrowstyle": "-", "alpha": 0.4} if max(abs(dx), abs(dy)) > 12 else None
            label = axes.annotate(name, point, (dx, dy), textcoords="offset points", ha=side, va="center", fontsize=9,
                                  arrowprops=line)  # fmt: skip
            label.get_window_extent()  # puts the label into its place;
            box = Text.get_window_extent(label)  # the words without the line
            fits = inside.contains(box.x0, box.y0) and inside.contains(box.x1, box.y1)
            free = not any(box.overlaps(other) for other in taken)
            if fits and free and not any(box.padded(6).contains(*place) for of, place in places.items() if of != name):
                taken.append(box)
                break
            label.remove()


def offsets() -> Iterator[tuple[float, float]]:
    """Places of a name about its point, in points of 1/72 inch, the nearest first."""
    for far in range(8, 160, 8):
        yield from ((far, 0), (-far, 0), (0, far), (0, -far), (far, far), (-far, far), (far, -far), (-far, -far))


# ---- publishing


def published(records: Records) -> dict[str, Any]:
    """What embedx tells of its objectives: the numbers of the part at equal epochs."""
    runs, about = newest(records, "epochs"), records.environment["corpus"]
    if not finished(runs) or records.quick:
        raise SystemExit(f"{records.path}: nothing of the part `epochs` to publish; measure it first, without --quick")
    found: dict[str, Any] = {}
    for name, each in runs.items():
        result = each["result"]
        found[name] = {"diverged": True} if "diverged" in result else {
            "log_likelihood": round(log_likelihood(each), 4), "wordsim": round(result["scores"]["WordSim-353"], 4),
            "analogies": round(result["scores"]["Google analogies"], 4), "words_per_second": result["words_per_second"],
        }  # fmt: skip
    first = next(iter(finished(runs).values()))
    told = {
        "corpus": about["name"], "words": about["words"], "machine": records.environment["machine"]["cpu"],
        **{name: first["job"]["options"][name] for name in ("threads", "epochs", "heldout")},
        "unigram": round(first["result"]["heldout"]["unigram"], 4), "date": max(each["ended"] for each in runs.values())[:10],
    }  # fmt: skip
    return {"about": told, "objectives": found}


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
    settings={"corpus": None, "minutes": 2, "epochs": 5, "threads": 2, "heldout": "0.5%", "heldout_exact": "2%",
              "max_vocab": 5000},
    quick={"minutes": 0.05, "epochs": 1, "heldout": "5%", "heldout_exact": "5%", "max_vocab": 500},
    packages=("gensim",),
    prepare=prepare,
    jobs=jobs,
    measure=measure,
    tables={"ahead": ahead, "targets": targets, "conditions": conditions,
            **{part: partial(of_part, part) for part in ("time", "epochs", "exact")}, "rows": equal_rows},
    plots={"": plot},
    publish=publish,
)  # fmt: skip
