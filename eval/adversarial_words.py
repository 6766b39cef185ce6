"""Adversarial noise for word vectors (Bamler & Mandt 2020): the negatives of a pair are drawn by a
tree that predicts targets from the vector of the input word.

    unigram           noise by frequency, as by default
    adversarial       unigram noise in the first epoch; before each later one a tree is fitted to
                      the vectors of that moment, and draws
    adversarial-once  the tree that is fitted after the first epoch draws until the end. Output rows
                      of an objective whose scores are relative to the noise start anew then
    blocks            `embedx train` at its defaults: blocks of text share draws by frequency

All but the last are trained pair by pair (`pair_trainer`), because blocks share their draws among
inputs. Negative sampling's probabilities are corrected by the noise of the input, of which it has
learned the difference.

Texts are the beginning of Wikipedia in two lengths, its end, and news by sentence: `--set
news=FILE`, by default the held-out shard of One Billion Words. Spans of the text are held out: half
of them for validation, the others for the test. Learning rates are searched for by factors of the
root of 10 on a shorter beginning, until the best is at no edge, and then the tree's penalty.
Unigram noise and blocks train as many epochs as fit into the processor time of adversarial noise,
in which the fitting of trees counts; finding the pairs of the text does not. Noise that is fitted
once, and blocks for so long, have one seed.
"""

import functools
import itertools
import math
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy import int32, int64, ndarray
from threadpoolctl import threadpool_limits

from embedx import samplers
from embedx.evaluation import held_out, words
from embedx.evaluation.held_out import HeldOutPairs
from embedx.objectives.contract import Objective
from embedx.runtime.progress import SILENT
from embedx.samplers.contract import Sampler
from embedx.skipgram.configuration import configure
from embedx.skipgram.reading import read_corpora
from embedx.skipgram.run import WordVectorsRun
from embedx.text.held_out import PIECE
from embedx.text.tokenizer import END_OF_SENTENCE
from embedx.text.vocabulary import keep_probability
from embedx.training import life
from embedx.vectors.model import WordVectors
from eval import corpus, datasets, papers, word_tests
from eval.experiment import Experiment, Run
from eval.page import DASH, mean_and_deviation, number, table
from eval.pair_trainer import PairTrainer
from eval.records import Job, Record, Records, Result, grouped
from eval.words_by_time import REPORTED, Stopwatch

OBJECTIVES = ("ns", "ove", "ar")
NOISES = ("unigram", "adversarial", "adversarial-once", "blocks")
TEXTS = ("short", "end", "news", "long")
PENALTIES = (0.1, 1.0, 10.0, 100.0, 1000.0)
FIRST_PENALTY = 1.0
FIRST_RATE = 1.0
EPOCHS = 3
BLOCK_EPOCHS = 5
HELD_OUT = 0.04
MAX_PAIRS = 20_000  # of those that are scored
FULL = {
    "corpus": None,
    "news": None,
    "megabytes": 3.0,
    "seeds": 3,
    "search_megabytes": 1.0,
    "large_megabytes": 10.0,
    "large_seeds": 1,
}
QUICK = {
    "megabytes": 0.35,
    "seeds": 1,
    "search_megabytes": 0.3,
    "large_megabytes": 0.4,
}


# ---- the jobs


def jobs(run: Run) -> Iterator[Job]:
    settings = run.settings
    yield frequencies("search", settings.search_megabytes)
    for objective in run.chosen("objective"):
        yield from search(run, objective)
    for text in run.chosen("text"):
        megabytes = settings.large_megabytes if text == "long" else settings.megabytes
        seeds = settings.large_seeds if text == "long" else settings.seeds
        yield frequencies(text, megabytes)
        for seed in range(1, seeds + 1):
            for objective in run.chosen("objective"):
                job = {"text": text, "megabytes": megabytes, "objective": objective}
                yield from test_jobs(run, job | {"seed": seed})


def frequencies(text: str, megabytes: float) -> Job:
    """The likelihood of a text by the frequencies of its words."""
    return {"text": text, "megabytes": megabytes, "by": "frequencies"}


def test_jobs(run: Run, job: Job) -> Iterator[Job]:
    """Adversarial noise; the others by their usual epochs, and by as many as take as long as it
    does with seed 1. Noise that is fitted once, and blocks for that long, have only this seed.
    """
    job = job | {"scored": "test"}
    objective = job["objective"]
    penalised = best_of(run.records, objective, "adversarial")
    adversarial = job | {"noise": "adversarial", "epochs": EPOCHS} | penalised
    timed = adversarial | {"seed": 1}
    yield adversarial
    unigram = job | {"noise": "unigram", "epochs": EPOCHS}
    unigram |= best_of(run.records, objective, "unigram")
    yield unigram
    longer = best_of(run.records, objective, "unigram", is_long=True)
    yield unigram | longer | {"epochs": epochs_in_time(run.records, timed, unigram)}
    blocks = job | {"noise": "blocks", "epochs": BLOCK_EPOCHS}
    yield blocks
    if job["seed"] == 1:
        yield adversarial | {"noise": "adversarial-once"}
        yield blocks | {"epochs": epochs_in_time(run.records, timed, blocks)}


def epochs_in_time(records: Records, timed: Job, other: Job) -> int:
    """As many epochs as take the time of a job, by what those of the other one took; more than
    these in any case.
    """
    seconds = seconds_of(records, timed)
    others = seconds_of(records, other | {"seed": 1})
    epochs = round(other["epochs"] * seconds / max(others, 1e-9))
    return max(epochs, other["epochs"] + 1)


def seconds_of(records: Records, job: Job) -> float:
    result = records.get(job)
    assert result is not None
    return float(result["seconds"])


def search(run: Run, objective: str) -> Iterator[Job]:
    """Runs by rate for each noise, beside the best one so far, and by the tree's penalty."""
    job: Job = {
        "text": "search",
        "objective": objective,
        "megabytes": run.settings.search_megabytes,
        "seed": 1,
        "scored": "validation",
    }
    adversarial = job | {"noise": "adversarial", "epochs": EPOCHS}
    yield from rates(run, adversarial | {"tree_l2": FIRST_PENALTY})
    best = best_of(run.records, objective, "adversarial")
    for penalty in PENALTIES:
        yield adversarial | {"rate": best["rate"], "tree_l2": penalty}
    unigram = job | {"noise": "unigram", "epochs": EPOCHS}
    yield from rates(run, unigram)
    first = {"rate": FIRST_RATE}
    timed = adversarial | first | {"tree_l2": FIRST_PENALTY}
    epochs = epochs_in_time(run.records, timed, unigram | first)
    yield from rates(run, unigram | {"epochs": epochs})


def rates(run: Run, job: Job) -> Iterator[Job]:
    """Runs by rate, beside the best one so far."""

    def at(step: int) -> Job:
        return job | {"rate": float(f"{FIRST_RATE * 10 ** (step / 2):.3g}")}

    return papers.search_rates(at, lambda job: likelihood(run.records.get(job)))


def likelihood(result: Result | None) -> float:
    """The held-out log-likelihood, by which a run is chosen."""
    if result is None or not math.isfinite(result["log-likelihood"]):
        return -math.inf
    return float(result["log-likelihood"])


def best_of(records: Records, objective: str, noise: str, is_long: bool = False) -> Job:
    """The rate, and the tree's penalty if there is one, of the best run of the search; of those of
    more epochs if it `is_long`.
    """
    tried = [
        record
        for record in records.find(objective=objective, noise=noise, scored="validation")
        if (record["job"]["epochs"] > EPOCHS) == is_long
    ]
    best = max(tried, key=lambda record: likelihood(record["result"]))["job"]
    return {name: best[name] for name in ("rate", "tree_l2") if name in best}


# ---- the text


class Text(NamedTuple):
    """The words that are trained on, in text order, and the pairs that are scored.

    words      int32 (n,)
    sentences  int64 (n,): windows end where this changes
    keep       float32 (n_words,): the probability that subsampling keeps a word
    """

    words: ndarray
    sentences: ndarray
    keep: ndarray
    window: int
    validation: HeldOutPairs
    test: HeldOutPairs


def text_of(run: WordVectorsRun) -> Text:
    tokens = np.asarray(run.corpus.tokens)
    excluded = run.held_out_text
    assert excluded is not None
    keep = keep_probability(run.vocabulary.trained_counts, run.config.vocabulary.sample)
    window = run.config.settings.window
    is_out = np.repeat(excluded.pieces, PIECE)[: len(tokens)] > 0
    is_end = tokens == END_OF_SENTENCE
    sentences = np.cumsum(is_end | (np.diff(is_out, prepend=False) != 0))
    is_trained = ~(is_out | is_end)
    halves = []
    for half in (0, 1):
        some = excluded.spans % 2 == half
        halves.append(
            held_out.sample_pairs(
                excluded.words[some],
                excluded.sentences[some],
                keep,
                window,
                seed=0,
                at_most=MAX_PAIRS,
                groups=excluded.spans[some],
            )
        )
    return Text(run.remap[tokens[is_trained]], sentences[is_trained], keep, window, *halves)


def pairs_of_epoch(text: Text, seed: int, epoch: int) -> tuple[ndarray, ndarray]:
    """The inputs and targets of all pairs of an epoch, int32 (n,) each, in text order."""
    number_of_draws = int(np.random.SeedSequence([seed, epoch]).generate_state(1)[0])
    everything = np.iinfo(int64).max
    pairs = held_out.sample_pairs(
        text.words, text.sentences, text.keep, text.window, number_of_draws, everything
    )
    return pairs.inputs.astype(int32), pairs.targets.astype(int32)


# ---- measuring


def measure(run: Run, job: Job) -> Result:
    file = text_file(run, job["text"], job["megabytes"])
    options = {name: job[name] for name in ("seed", "epochs") if name in job}
    objective = job.get("objective", OBJECTIVES[0])
    config = configure(objective, {"heldout": HELD_OUT, "threads": 1, **options})
    tokens = run.folder / "tokens"
    with threadpool_limits(1), read_corpora([str(file)], config, SILENT, tokens) as encoded:
        prepared = WordVectorsRun.resolved(encoded, config, SILENT)
        text = text_of(prepared)
        if job.get("by") == "frequencies":
            return measured_frequencies(prepared, text)
        pairs = text.validation
        if job["scored"] == "test":
            pairs = text.test
        if job["noise"] == "blocks":
            vectors, result = measured_blocks(prepared, pairs)
        else:
            vectors, result = measured_pairs(prepared, text, pairs, job)
    if job["scored"] == "test":
        result["scores"] = scores_of(run, vectors)
    return result


def measured_frequencies(run: WordVectorsRun, text: Text) -> Result:
    """The size of a text, and its likelihood by how often words are trained on."""
    log_p = np.log(run.kept / run.kept.sum())
    return {
        "vocabulary": len(run.kept),
        "words": len(text.words),
        "validation": float(log_p[text.validation.targets].mean()),
        "test": float(log_p[text.test.targets].mean()),
    }


def measured_blocks(run: WordVectorsRun, pairs: HeldOutPairs) -> tuple[WordVectors, Result]:
    """Vectors by embedx's own training, its time, and the likelihood of pairs."""
    stopwatch = Stopwatch()
    run.wrap = stopwatch.wrap
    vectors = life.train_model(run, None).model
    mean = mean_log_probability(held_out.log_probability_of(vectors), pairs)
    return vectors, {"seconds": stopwatch.seconds, "log-likelihood": mean}


def measured_pairs(
    run: WordVectorsRun, text: Text, pairs: HeldOutPairs, job: Job
) -> tuple[WordVectors, Result]:
    """Vectors trained pair by pair, the time, and the likelihood of pairs, by the noise too."""
    trainer = pair_by_pair(run, text, job)
    vocabulary = run.vocabulary
    arrays = {"input": trainer.vectors}
    vectors = WordVectors(vocabulary.words, arrays, counts=vocabulary.counts)
    return vectors, {
        "seconds": trainer.seconds,
        "fit seconds": trainer.fit_seconds,
        "log-likelihood": mean_log_probability(trainer.log_probabilities, pairs),
        "of noise": mean_log_probability(trainer.log_noise_probabilities, pairs),
    }


def scores_of(run: Run, vectors: WordVectors) -> dict[str, float]:
    """The scores on packaged test sets."""
    folder = None
    if run.has_data:
        folder = str(run.data)
    set_scores = words.score_items(vectors, word_tests.tests(folder))
    scores = {set_score.test.name: set_score.score for set_score in set_scores}
    return {name: scores[name] for name in REPORTED if name in scores}


def text_file(run: Run, text: str, megabytes: float) -> Path:
    """A text of this length: news, or the beginning or the end of Wikipedia."""
    file = run.folder / f"{text}-{megabytes:g}"
    if not file.exists():
        n_bytes = int(megabytes * 1e6)
        if text == "news":
            file.write_bytes(corpus.news(run, n_bytes))
        else:
            whole = Path(run.files["text"]).read_bytes()
            cut = corpus.last if text == "end" else corpus.first
            file.write_bytes(cut(whole, n_bytes))
    return file


LogProbabilities = Callable[[ndarray], Iterator[tuple[slice, ndarray]]]


def pair_by_pair(run: WordVectorsRun, text: Text, job: Job) -> PairTrainer:
    """A trainer at the end of a job."""
    compile_tree()
    objective = run.config.objective
    settings = run.config.settings
    has_bias = settings.bias == "frequency"
    trainer = PairTrainer(objective, run.kept, settings.dim, has_bias, job["seed"])
    trainer.begin(run.sampler)
    inputs = targets = np.zeros(0, int32)
    for epoch in range(job["epochs"]):
        if is_fitted_before(epoch, job["noise"]):
            trainer.fit(new_noise(objective, job["tree_l2"]), inputs, targets)
            if job["noise"] == "adversarial-once" and objective.traits.adds_log_noise:
                trainer.forget_outputs()
        inputs, targets = pairs_of_epoch(text, job["seed"], epoch)
        rate = job["rate"] * (1 - epoch / job["epochs"])
        next_rate = job["rate"] * (1 - (epoch + 1) / job["epochs"])
        trainer.train(inputs, targets, epoch, rate, next_rate)
    return trainer


def is_fitted_before(epoch: int, noise: str) -> bool:
    """Whether a tree is fitted before an epoch, the first of which is 0."""
    if noise == "adversarial-once":
        return epoch == 1
    return noise == "adversarial" and epoch > 0


def new_noise(objective: Objective, penalty: float) -> Sampler:
    """Noise by a tree that is not fitted yet."""
    is_corrected = objective.traits.adds_log_noise
    return samplers.make("adversarial", {"tree_l2": penalty}, corrected=is_corrected)


@functools.cache
def compile_tree() -> None:
    """Have the kernels of the tree compiled or loaded before the clock runs."""
    objective = configure("ns", {}).objective
    trainer = PairTrainer(objective, np.ones(4, int64), dim=4, has_bias=False, seed=1)
    numbers = np.arange(4, dtype=int32)
    trainer.fit(new_noise(objective, FIRST_PENALTY), numbers, numbers)
    list(trainer.log_probabilities(numbers))


def mean_log_probability(log_p_of: LogProbabilities, pairs: HeldOutPairs) -> float:
    """The mean of log p(target | input)."""
    inputs, row = np.unique(pairs.inputs, return_inverse=True)
    values = np.zeros(len(row))
    for rows, log_p in log_p_of(inputs):
        some = np.flatnonzero((rows.start <= row) & (row < rows.stop))
        values[some] = log_p[row[some] - rows.start, pairs.targets[some]]
    return float(values.mean())


def prepare(run: Run) -> dict[str, Any]:
    return {"corpus": corpus.unpacked(run, pools_pairs=False)}


def needs(run: Run) -> list[str]:
    """Wikipedia, by which rates are searched for, and news unless a file of it is named."""
    if "news" in run.chosen("text") and not run.settings.news:
        return [datasets.TEXT, corpus.NEWS]
    return [datasets.TEXT]


# ---- tables


def results_on(text: str) -> Callable[[Records], str]:
    """A table of a text's test runs."""
    return lambda records: table(rows_of(records.find(scored="test", text=text)))


def rows_of(records: list[Record]) -> list[dict[str, str]]:
    """A row for each objective, noise and number of epochs, with means over the seeds."""
    by_contender = grouped(records, lambda job: (job["objective"], job["noise"], job["epochs"]))
    order = [*itertools.product(OBJECTIVES, NOISES)]
    contenders = sorted(by_contender, key=lambda key: (order.index(key[:2]), key[2]))
    rows = []
    for objective, noise, epochs in contenders:
        runs = [record["result"] for record in by_contender[objective, noise, epochs]]
        row = {"objective": f"`{objective}`", "noise": noise, "epochs": f"{epochs}"}
        row["seconds"] = mean_of(runs, "seconds")
        row["fitting"] = mean_of(runs, "fit seconds")
        row["log-likelihood"] = mean_and_deviation([run["log-likelihood"] for run in runs])
        row["of the noise"] = mean_of(runs, "of noise", 2)
        for test in REPORTED:
            row[test] = mean_and_deviation(
                [run["scores"][test] for run in runs if test in run["scores"]]
            )
        row["seeds"] = f"{len(runs)}"
        rows.append(row)
    return rows


def mean_of(runs: list[Result], name: str, digits: int = 1) -> str:
    """The mean of a number of some runs, if they have it."""
    if name not in runs[0]:
        return DASH
    return number(statistics.fmean(run[name] for run in runs), digits)


def searched(records: Records) -> str:
    """What each run of the search achieved on validation text."""
    tried = grouped(records.find(scored="validation"), lambda job: (job["objective"], job["noise"]))
    rows = []
    for objective, noise in sorted(tried, key=lambda key: OBJECTIVES.index(key[0])):
        runs = []
        for record in tried[objective, noise]:
            job = record["job"]
            setting = f"{job['rate']:g}"
            if "tree_l2" in job:
                setting += f", {job['tree_l2']:g}"
            else:
                setting += f", {job['epochs']} epochs"
            runs.append(f"{setting}: {number(record['result']['log-likelihood'])}")
        rows.append(
            {
                "objective": f"`{objective}`",
                "noise": noise,
                "rate, tree_l2: reached": "; ".join(runs),
            }
        )
    return table(rows)


def sizes(records: Records) -> str:
    """The texts, and how likely they are by the frequencies of words."""
    rows = []
    for record in records.find(by="frequencies"):
        result = record["result"]
        row = {"text": record["job"]["text"], "size": f"{record['job']['megabytes']:g} MB"}
        row["words trained on"] = f"{result['words']:,}"
        row["vocabulary"] = f"{result['vocabulary']:,}"
        for half in ("validation", "test"):
            row[f"{half} by frequencies"] = number(result[half])
        rows.append(row)
    return table(rows)


EXPERIMENT = Experiment(
    name="adversarial-words",
    title="Adversarial noise for word vectors",
    choices={"objective": OBJECTIVES, "text": TEXTS},
    jobs=jobs,
    measure=measure,
    tables={
        "sizes": sizes,
        "short": results_on("short"),
        "end": results_on("end"),
        "news": results_on("news"),
        "long": results_on("long"),
        "searched": searched,
    },
    plots={},
    settings=FULL,
    quick=QUICK,
    prepare=prepare,
    needs=needs,
    mixed=True,
)
