"""Which bound, at what price: how far the value of each objective is from the log-likelihood, by
the rows that it scores for an example.

same      at the weights of an exact softmax: minus the expected loss, less the log-likelihood
trained   each objective at its best rate: the log-likelihood of its model, and the gap there
time      CPU seconds per example beside one-vs-each, the objectives taking turns

gaussian      labels drawn from a softmax of dense features, whose scores are normal
eurlex-4.3k   documents, the first label of each
words         pairs of words of a text
"""

import functools
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from embedx.classification.classifier import Classifier
from embedx.errors import DivergedError
from embedx.evaluation import held_out
from embedx.labeled.data import Labeled, Labels
from embedx.labeled.scaling import unit_rows
from embedx.skipgram.configuration import configure
from embedx.skipgram.estimator import SkipGram
from embedx.vectors.model import WordVectors
from eval import corpus, papers
from eval.bounds_gaps import (
    BOUND,
    ESTIMATE,
    FOUND,
    METHODS,
    Scored,
    gap,
    likelihood,
    sample_examples,
)
from eval.experiment import Experiment, Run
from eval.page import figure, number, table
from eval.papers_augment_and_reduce import timed_fit
from eval.papers_ldgs_words import split
from eval.records import Job, Records, Result

GAUSSIAN, EURLEX, WORDS = DATA = ("gaussian", "eurlex-4.3k", "words")
TITLES = {
    GAUSSIAN: "normal scores, deviation 4",
    EURLEX: "EURLex-4.3K, first labels",
    WORDS: "words of a text",
}
DEVIATION = 4.0
COLUMNS = 16
EXPONENT = 0.75
ROWS = (2, 4, 16, 64, 256, 1024)
ROWS_OF_TRAINING = 16
ROWS_OF_TIME = (16, 64, 256)
FIRST_RATE = 0.12
SOFTMAX_EPOCHS = 2
FULL = {
    "corpus": None,
    "megabytes": 1.0,
    "max_vocab": 1_000,
    "classes": 2_000,
    "rows": 5_000,
    "test": 2_000,
    "scored": 200,
    "epochs": 5,
    "repeats": 5,
    "timed_rows": 2_000,
    "timed_classes": 20_000,
    "rounds": 3,
    "seeds": 3,
}
QUICK = {
    "megabytes": 0.3,
    "max_vocab": 200,
    "classes": 100,
    "rows": 300,
    "test": 80,
    "scored": 40,
    "epochs": 1,
    "repeats": 2,
    "timed_rows": 300,
    "timed_classes": 500,
    "rounds": 1,
    "seeds": 2,
}
MARGIN = "neither; with `--loss softmax` an upper bound, and with drawn rows an estimate"
KINDS = {
    "softmax": "the likelihood",
    "ns": "neither",
    "hs": "the likelihood of a tree",
    "ar": BOUND,
    "ove": BOUND,
    "implicit": BOUND,
    "ldgs": MARGIN,
    "mips": MARGIN,
    "margin": "neither",
    "nested-ove": BOUND,
    "ova": BOUND,
    "nce": "neither",
    "sampled-softmax": ESTIMATE,
    "complementary-sum": ESTIMATE,
    "bouchard": BOUND,
    "umax": BOUND,
    "sgd-double-sum": BOUND,
    "scgd": BOUND,
    "ar-probit": "lower bound of a probit's",
    "ar-logistic": "lower bound of a logistic's",
}
TRAINED = (
    "softmax",
    "ove",
    "bouchard",
    "ar",
    "scgd",
    "nested-ove",
    "complementary-sum",
    "sampled-softmax",
    "mips",
)
SEARCHING = ("nested-ove", "mips")  # an index needs dense features
TIMED = (
    "ove",
    "bouchard",
    "ar",
    "scgd",
    "complementary-sum",
    "sampled-softmax",
    "nested-ove",
    "mips",
)


# ---- the jobs


def jobs(run: Run) -> Iterator[Job]:
    sections = run.chosen("section")
    seeds = range(1, run.settings.seeds + 1)
    for name in run.chosen("data"):
        if "same" in sections:
            yield from ({"section": "same", "data": name, "seed": seed} for seed in seeds)
        if "trained" in sections:
            for objective in trained_on(name, run.chosen("objective")):
                job = {"section": "trained", "data": name, "objective": objective}
                yield from papers.search_rates(
                    lambda step, job=job: job | {"what": "rate", "step": step, "seed": 1},
                    lambda job: (run.records.get(job) or {}).get("chosen_by", -np.inf),
                )
                yield from (job | {"what": "test", "seed": seed} for seed in seeds)
    if "time" in sections:
        yield {"section": "time", "rows": run.settings.timed_rows}


def trained_on(name: str, chosen: tuple[str, ...] = TRAINED) -> list[str]:
    """The objectives that are trained on a set."""
    return [method for method in chosen if name != EURLEX or method not in SEARCHING]


def measure(run: Run, job: Job) -> Result:
    if job["section"] == "same":
        return at_the_softmax(run, job["data"], job["seed"])
    if job["section"] == "time":
        return in_turns(run)
    return trained(run, job)


@functools.lru_cache(maxsize=1)
def labelled(run: Run, name: str) -> tuple[Labeled, Labeled]:
    """Training rows and test rows with one label each, of length 1 on average."""
    settings = run.settings
    if name == GAUSSIAN:
        n = settings.rows + settings.test
        rng = np.random.default_rng(1)
        x = rng.normal(0, COLUMNS**-0.5, (n, COLUMNS)).astype(np.float32)
        z = x @ true_weights(settings.classes).T
        y = (z + rng.gumbel(size=z.shape)).argmax(axis=1).astype(np.int32)
        data = Labeled(x, Labels.single(y), settings.classes)
        return data.rows(np.arange(settings.rows)), data.rows(np.arange(settings.rows, n))
    training, test = papers.load(run.data_folder, name, run.quick)
    rng = np.random.default_rng(1)
    training = training.rows(np.sort(rng.permutation(len(training))[: settings.rows]))
    halves = papers.numbered(training, test)
    training, test = (Labeled(unit_rows(h.features), h.labels, h.n_labels) for h in halves)
    return training, test.rows(np.sort(rng.permutation(len(test))[: settings.test]))


def true_weights(n_classes: int) -> np.ndarray:
    """float32 (K, COLUMNS): for inputs of length 1 scores have the DEVIATION."""
    rng = np.random.default_rng(2)
    return rng.normal(0, DEVIATION, (n_classes, COLUMNS)).astype(np.float32)


@functools.lru_cache(maxsize=1)
def texts(run: Run) -> tuple[Path, Path]:
    """The text that is trained on, and the one that is scored."""
    text = Path(run.files["text"])
    corpus.beginning(run, text, b" ", run.settings.megabytes)
    return split(run.files["beginning"], run.folder)


@functools.lru_cache(maxsize=1)
def softmax_of(run: Run, name: str) -> Any:
    """The exact softmax of a set after SOFTMAX_EPOCHS times the epochs of the others."""
    epochs = SOFTMAX_EPOCHS * run.settings.epochs
    if name == WORDS:
        return word_vectors(run, "softmax", {"epochs": epochs})
    options = {"epochs": epochs, "learning_rate": FIRST_RATE, "threads": 1}
    return papers.fit(labelled(run, name)[0], "softmax", options).classifier


def word_vectors(run: Run, objective: str, options: dict[str, Any]) -> WordVectors:
    settings = {"dim": 32, "max_vocab": run.settings.max_vocab, "threads": 1, "seed": 1}
    settings |= {"subwords": None} | options
    return SkipGram(objective=objective, verbose=False, **settings).fit(str(texts(run)[0])).model


def scores_of_words(run: Run, vectors: WordVectors, seed: int) -> Scored:
    """Some pairs of the text that is scored."""
    pairs, _ = held_out.pairs_of([str(texts(run)[1])], vectors, seed=seed)
    rows = np.random.default_rng(seed).permutation(len(pairs.targets))[: run.settings.test]
    z = vectors.vectors[pairs.inputs[rows]] @ vectors.arrays["output"].T
    z += vectors.arrays.get("bias", np.float32(0))
    return Scored(z.astype(np.float64), pairs.targets[rows], noise_of(held_out.trained_on(vectors)))


def scores_of_labels(classifier: Classifier, data: Labeled, name: str) -> Scored:
    counts = np.ones(data.n_labels) if name == GAUSSIAN else classifier.counts
    z = classifier.scores(data.features).astype(np.float64)
    return Scored(z, data.labels.ids, noise_of(counts))


def noise_of(counts: np.ndarray) -> np.ndarray:
    """The distribution of a draw."""
    mass = np.maximum(counts, 1) ** EXPONENT
    return mass / mass.sum()


# ---- values at given weights


def at_the_softmax(run: Run, name: str, seed: int) -> Result:
    """The gap of every method by the number of rows; the seed has its own examples and draws."""
    settings = run.settings
    if name == GAUSSIAN:
        rng = np.random.default_rng(seed)
        z = rng.normal(0, DEVIATION, (settings.scored, settings.classes))
        y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
        scored = Scored(z, y, np.full(settings.classes, 1 / settings.classes))
    elif name == WORDS:
        scored = sample_examples(
            scores_of_words(run, softmax_of(run, name), seed), settings.scored, seed
        )
    else:
        model = softmax_of(run, name)
        scored = sample_examples(
            scores_of_labels(model, labelled(run, name)[1], name), settings.scored, seed
        )
    n_rows = [n for n in ROWS if n <= scored.z.shape[1]]
    gaps = {
        title: [gap(method, scored, n, run, seed) for n in n_rows]
        for title, method in METHODS.items()
    }
    return {"log_likelihood": likelihood(scored), "classes": scored.z.shape[1], "gaps": gaps}


# ---- training


def trained(run: Run, job: Job) -> Result:
    """One run: the exact log-likelihood of its model on test rows, half of which choose the rate,
    and its gap at its own weights.
    """
    name = job["data"]
    objective = job["objective"]
    step = job["step"] if job["what"] == "rate" else best_step(run.records, job)
    options: dict[str, Any] = {"epochs": run.settings.epochs, "seed": job["seed"]}
    if objective == "mips":
        options["loss"] = "softmax"
    try:
        if name == WORDS:
            rate = configure(objective, {}).settings.learning_rate * 3.0**step
            vectors = word_vectors(run, objective, options | {"learning_rate": rate})
            scored = scores_of_words(run, vectors, seed=0)
        else:
            rate = FIRST_RATE * 3.0**step
            options |= {"learning_rate": rate, "negatives": ROWS_OF_TRAINING - 1, "threads": 1}
            training, test = labelled(run, name)
            classifier = papers.fit(training, objective, options).classifier
            scored = scores_of_labels(classifier, test, name)
    except DivergedError as error:
        return {"error": f"DivergedError: {error}"}
    choosing, test = (scored._replace(z=scored.z[i::2], y=scored.y[i::2]) for i in (0, 1))
    result = {"rate": rate, "chosen_by": likelihood(choosing), "log_likelihood": likelihood(test)}
    if objective in METHODS:
        valued = sample_examples(test, run.settings.scored, job["seed"])
        result["gap"] = gap(METHODS[objective], valued, ROWS_OF_TRAINING, run, job["seed"])
    return result


def best_step(records: Records, job: Job) -> int:
    """The rate at which an objective's model is best, as a power of three of the first one."""
    tried = records.succeeded(
        section="trained", data=job["data"], objective=job["objective"], what="rate"
    )
    return max(tried, key=lambda record: record["result"]["chosen_by"])["job"]["step"]


def in_turns(run: Run) -> Result:
    """CPU seconds of an epoch by objective and number of rows, a median for each round; the first
    round, which compiles, is left out.
    """
    settings = run.settings
    rng = np.random.default_rng(3)
    x = rng.normal(0, 1, (settings.timed_rows, 128)).astype(np.float32)
    y = rng.integers(settings.timed_classes, size=settings.timed_rows).astype(np.int32)
    data = Labeled(x, Labels.single(y), settings.timed_classes)
    seconds: dict[str, dict[str, list[float]]] = {
        name: {str(n): [] for n in ROWS_OF_TIME} for name in TIMED
    }
    for turn in range(settings.rounds + 1):
        for n_rows in ROWS_OF_TIME:
            for name in TIMED[:: -1 if turn % 2 else 1]:
                options = {
                    "epochs": 3,
                    "negatives": n_rows - 1,
                    "learning_rate": 0.01,
                    "seed": turn,
                }
                options |= {"sampler": "uniform", "threads": 1, "batch_size": 64}
                if name in SEARCHING:
                    options |= {"sampler": "search", "loss": "softmax"}
                marks = timed_fit(data, name, options)[1]
                if turn > 0:
                    seconds[name][str(n_rows)].append(statistics.median(np.diff(marks)))
    return {"seconds": seconds}


# ---- tables


def kinds(records: Records) -> str:
    """What each objective is."""
    return table(
        [{"objective": f"`{name}`", "minus the loss is": kind} for name, kind in KINDS.items()]
    )


def mean_and_spread(values: list[float], digits: int = 3) -> str:
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    mean = round(statistics.fmean(values), digits) + 0.0  # without the sign of a zero
    return f"{number(mean, digits)} ± {number(spread, digits)}"


def same(name: str, records: Records) -> str:
    """The gaps of a set at the weights of the softmax."""
    results = records.results(section="same", data=name)
    if not results:
        return table([])
    rows = []
    for title in METHODS:
        gaps = [result["gaps"][title] for result in results]
        cells = {
            f"{n} rows": mean_and_spread(list(values))
            for n, values in zip(ROWS, zip(*gaps, strict=True), strict=False)
        }
        rows.append({"objective": title, **cells})
    exact = mean_and_spread([result["log_likelihood"] for result in results])
    return f"{table(rows)}\n\n{results[0]['classes']:,} classes; exact log-likelihood {exact}."


def models(name: str, records: Records) -> str:
    """The models of a set, the likeliest first, and their gaps."""
    rows = []
    for objective in trained_on(name):
        results = records.results(section="trained", data=name, objective=objective, what="test")
        if not results:
            continue
        likelihoods = [result["log_likelihood"] for result in results]
        row = {
            "objective": f"`{objective}`",
            "rate": f"{results[0]['rate']:.3g}",
            "log-likelihood": mean_and_spread(likelihoods),
        }
        if "gap" in results[0]:
            row["gap at its own weights"] = mean_and_spread([result["gap"] for result in results])
        rows.append((statistics.fmean(likelihoods), row))
    return table([row for _, row in sorted(rows, key=lambda pair: -pair[0])])


def price(records: Records) -> str:
    """CPU time beside one-vs-each with as many rows."""
    result = records.last(section="time")
    if result is None:
        return table([])
    seconds = result["seconds"]
    rows = []
    for name in TIMED:
        cells = {}
        for n in map(str, ROWS_OF_TIME):
            ratios = [a / b for a, b in zip(seconds[name][n], seconds["ove"][n], strict=True)]
            cells[f"{n} rows"] = f"{statistics.median(ratios):.2f}"
        rows.append({"objective": f"`{name}`", **cells})
    return table(rows)


def plot(records: Records) -> Any:
    """The gaps at the weights of the softmax, by rows."""
    picture, panels = figure(15, 6, len(DATA), dpi=100)
    for panel, name in zip(panels, DATA, strict=True):
        draw_gaps(panel, name, records.results(section="same", data=name))
    names = ("green: lower bounds", "orange: estimates", "purple: an upper bound")
    picture.suptitle(";  ".join(names), fontsize=10)
    panels[0].set_ylabel("minus the loss, less the log-likelihood; nats")
    return picture


COLORS = {BOUND: "#00796b", ESTIMATE: "#d84315", FOUND: "#5e35b1"}
NEAR = 0.01  # nats within which the axis is linear
LABEL_HEIGHT = 0.045  # as a share of a panel's height


def draw_gaps(panel: Any, name: str, results: list[Result]) -> None:
    """One line for each method, whose name stands at its end."""
    panel.set(xscale="log", title=TITLES[name], xlabel="rows scored for an example, 4 D FLOPs each")
    panel.set_yscale("symlog", linthresh=NEAR)
    panel.axhline(0, color="black", linewidth=1)
    panel.spines[["top", "right"]].set_visible(False)
    if not results:
        return
    ends = []
    for title, method in METHODS.items():
        gaps = np.array([result["gaps"][title] for result in results])
        x = ROWS[: gaps.shape[1]]
        style = {"color": COLORS[method.kind], "marker": "o", "markersize": 4}
        panel.errorbar(x, gaps.mean(axis=0), gaps.std(axis=0), **style)
        ends.append((float(gaps.mean(axis=0)[-1]), title, style["color"]))
    panel.set_xticks(x, [str(n) for n in x], minor=False)
    panel.minorticks_off()
    write_ends(panel, ends)


def write_ends(panel: Any, ends: list[tuple[float, str, str]]) -> None:
    """Names beside a panel, as near to the ends of their lines as there is space."""
    panel.set_ylim(panel.get_ylim())
    to_panel = panel.transData + panel.transAxes.inverted()
    ends = sorted(ends)
    heights = [float(to_panel.transform((1, gap))[1]) for gap, _, _ in ends]
    for (_, title, color), height in zip(ends, spread(heights), strict=True):
        place = {"xy": (1.01, height), "xycoords": "axes fraction", "annotation_clip": False}
        panel.annotate(title, **place, color=color, fontsize=9, va="center")


def spread(heights: list[float]) -> list[float]:
    """Ascending heights moved up, and where they pass the top down again, until none overlap."""
    placed: list[float] = []
    for height in heights:
        placed.append(max([height, *(below + LABEL_HEIGHT for below in placed[-1:])]))
    top = 1.0
    for i in reversed(range(len(placed))):
        placed[i] = min(placed[i], top)
        top = placed[i] - LABEL_HEIGHT
    return placed


EXPERIMENT = Experiment(
    name="bounds",
    title="Which bound, at what price",
    choices={"section": ("same", "trained", "time"), "data": DATA, "objective": TRAINED},
    settings=FULL,
    quick=QUICK,
    prepare=lambda run: (
        {"corpus": corpus.unpacked(run, pools_pairs=False)}
        if WORDS in run.chosen("data")
        else {"data": {}}
    ),
    needs=lambda run: [EURLEX] if EURLEX in run.chosen("data") else [],
    jobs=jobs,
    measure=measure,
    tables={
        "kinds": kinds,
        **{f"same-{name.partition('-')[0]}": functools.partial(same, name) for name in DATA},
        **{f"trained-{name.partition('-')[0]}": functools.partial(models, name) for name in DATA},
        "price": price,
    },
    plots={"": plot},
    page="docs/bounds.md",
    mixed=True,
)
