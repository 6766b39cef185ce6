"""Which output layer makes the best word vectors, and which the likeliest text? All objectives side
by side.

Each run is `embedx train CORPUS --objective X` in a process of its own, with the part's options and
nothing else typed, so that it has the defaults that a user gets; how those were tuned, the page
says. A record keeps the held-out log-probabilities summed by span of text, and the pooled
similarity of the same resamples of its word pairs, from which any paired difference follows
(`objectives_compared`).

Equal time is ranked by the best point within the budget: of a few numbers of epochs, and of as many
as the budget gives, each a run of its own whose learning rate falls to zero at its end, the one
that makes the held-out spans of even number likeliest with the first seed; it is scored on the
spans of odd number, with all seeds. Ranks and errors are those of `embedx.evaluation.statistics`.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from embedx import load, objectives
from embedx.comparison.runs import reason, watched
from embedx.errors import DivergedError
from embedx.evaluation import held_out, words
from embedx.runtime.progress import Silent
from embedx.skipgram.configuration import configure
from embedx.skipgram.defaults import default_rate
from embedx.spelling import as_arguments
from embedx.text.encode import encode
from embedx.text.held_out import hold_out
from embedx.text.settings import TextSettings, VocabularySettings
from embedx.text.vocabulary import select
from eval import corpus, objectives_compared as compared, objectives_tables as tables, word_tests
from eval.experiment import Experiment, Run
from eval.records import Job, Records, Result

# bytes at the end of the corpus, for the parts exact and rates; the first as many were tuned on
EXCERPT = 10_000_000


# ---- the jobs


def jobs(run: Run) -> Iterator[Job]:
    """The jobs of each part, objectives in the order of the registry."""
    chosen = run.chosen("objective")
    for part in run.chosen("part"):
        names = dict.fromkeys([compared.REFERENCE, *chosen]) if part == "rows" else chosen
        for name in names:
            if part == "exact" or not takes_all_rows(name):
                yield from JOBS[part](run, name)


def jobs_of_epochs(run: Run, objective: str) -> Iterator[Job]:
    for seed in seeds(run):
        yield job_of_epochs(run, objective, run.settings.epochs, seed)


def options_on_excerpt(run: Run) -> Job:
    settings = run.settings
    return {
        "epochs": settings.epochs,
        "threads": settings.threads,
        "heldout": settings.heldout_exact,
    }


def jobs_beside_softmax(run: Run, objective: str) -> Iterator[Job]:
    options = options_on_excerpt(run) | {"max_vocab": run.settings.max_vocab}
    for seed in seeds(run):
        yield job_of("exact", objective, options | {"seed": seed})


def jobs_by_rate(run: Run, objective: str) -> Iterator[Job]:
    options = options_on_excerpt(run) | {"seed": 1}
    for factor in compared.FACTORS:
        rate = float(f"{factor * defaults(objective)['learning_rate']:.3g}")
        yield job_of("rates", objective, options | {"learning_rate": rate})


def jobs_of_equal_rows(run: Run, objective: str) -> Iterator[Job]:
    options = {"epochs": 1, "threads": run.settings.threads}
    yield job_of("rows", objective, options | rows_of_reference(run.records, objective))


def job_of(part: str, objective: str, options: Job) -> Job:
    return {
        "part": part,
        "objective": objective,
        "options": options,
        "defaults": defaults(objective),
    }


def table_of(job: Job) -> str:
    """The part whose table a job stands in. That of equal time has runs of `epochs`, too."""
    return "epochs" if job["part"] == "time" else str(job["part"])


def seeds(run: Run) -> range:
    return range(1, run.settings.seeds + 1)


def job_of_epochs(run: Run, objective: str, epochs: int, seed: int) -> Job:
    """A run of so many epochs: of the part `epochs` where these are its own, so that none is made
    twice.
    """
    settings = run.settings
    options = {
        "epochs": epochs,
        "threads": settings.threads,
        "heldout": settings.heldout,
        "seed": seed,
    }
    return job_of("epochs" if epochs == settings.epochs else "time", objective, options)


def job_of_whole_budget(run: Run, objective: str, seed: int) -> Job:
    """A run of the whole time."""
    settings = run.settings
    budget = f"{60 * settings.minutes:g}s"
    return job_of(
        "time",
        objective,
        {
            "time_budget": budget,
            "threads": settings.threads,
            "heldout": settings.heldout,
            "seed": seed,
        },
    )


def timed_jobs(run: Run, objective: str) -> Iterator[Job]:
    """With the first seed the whole time, then each number of epochs that is expected to fit in;
    the best of these with all.
    """
    first, *others = seeds(run)
    end = job_of_whole_budget(run, objective, first)
    yield end
    result = run.records.get(end) or {}
    for epochs in tried_epochs(run):
        if epochs < result.get("epochs", 0):
            yield job_of_epochs(run, objective, epochs, first)
    best = compared.best_label(compared.points(run.records).get(objective, {}))
    for seed in others:
        if best is not None:
            yield (
                job_of_whole_budget(run, objective, seed)
                if best == compared.END
                else job_of_epochs(run, objective, int(best), seed)
            )


def tried_epochs(run: Run) -> list[int]:
    return [int(epochs) for epochs in str(run.settings.tried).split("/")]


# by part
JOBS: dict[str, Callable[[Run, str], Iterator[Job]]] = {
    "time": timed_jobs,
    "epochs": jobs_of_epochs,
    "exact": jobs_beside_softmax,
    "rates": jobs_by_rate,
    "rows": jobs_of_equal_rows,
}


def takes_all_rows(objective: str) -> bool:
    """Whether an objective is defined on every row, so that it is measured only where the
    vocabulary is small.
    """
    return bool(objectives.find(objective).samplers()[0] == "all")


def defaults(objective: str) -> dict[str, Any]:
    """What a user gets who types --objective alone, the sampler's own settings among it: a run with
    others is another run.
    """
    config = configure(objective, {})
    settings = config.settings
    chosen = dict(
        settings.record()
        | config.new_sampler().settings.record()
        | config.objective.settings.record()
    )
    if chosen["learning_rate"] is None:  # it follows the optimizer, which the text may decide
        chosen["learning_rate"] = default_rate(settings.optimizer, config.kind)
    return chosen


def rows_of_reference(records: Records, objective: str) -> Job:
    """Options that make an objective score as many drawn rows as the reference did, as often
    shared.
    """
    if (
        objective == compared.REFERENCE
        or "negatives" not in objectives.find(objective).Settings().record()
    ):
        return {}
    settings = records.find(part="rows", objective=compared.REFERENCE)[-1]["result"]["settings"]
    return {name: settings[name] for name in ("negatives", "block_size", "draws")}


# ---- one run, from the command to its scores


def prepare(run: Run) -> dict[str, Any]:
    """Facts about the corpus. `corpus.unpacked` writes `text` and `tiny`; this, `excerpt`."""
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
    return trained(
        run,
        job["objective"],
        job["options"],
        "excerpt" if job["part"] in ("exact", "rates") else "text",
    )


def trained(run: Run, objective: str, options: Job, text: str) -> Result:
    """Train one model by the command line, and score it. Ends the program where training fails; to
    diverge is a result.
    """
    model = run.folder / "model"
    typed = as_arguments(options)
    places = [
        "--output",
        str(model),
        "--overwrite",
        "--cache-dir",
        str(run.folder / "tokens"),
    ]
    command = [
        sys.executable,
        "-m",
        "embedx",
        "train",
        str(run.folder / text),
        "--objective",
        objective,
        *typed,
        *places,
    ]
    start = time.perf_counter()
    ended = watched([*command, "--json"], run.folder)
    wall_seconds = time.perf_counter() - start
    if ended.code == DivergedError.exit_code:
        return {"diverged": reason(ended.complaints)}
    if ended.code:
        raise SystemExit(
            f"{ended.complaints[-3000:]}\n`embedx train --objective {objective}` failed; --resume"
            " continues from here"
        )
    facts = json.loads(ended.printed.splitlines()[-1])
    if "learning_rate_lowered" in facts:
        return {
            "diverged": f"the learning rate was lowered to {facts['learning_rate_lowered'][-1]:.3g}"
        }
    kept = ("settings", "epochs", "seconds", "words_per_second", "words")
    result = {name: facts[name] for name in kept} | {
        "loss": facts["final_loss"],
        "highest_loss": facts["highest_loss"],
    }
    result |= {"whole": round(wall_seconds, 1), "peak_rss": ended.peak or 0}
    if "heldout" in facts:
        vectors = load(model)
        result["heldout"] = facts["heldout"] | by_group(likelihood(run, vectors, text))
        set_scores = words.score_items(vectors, word_tests.tests(run.data_folder))
        result["scores"] = {set_score.test.name: set_score.score for set_score in set_scores}
        lengths = np.linalg.norm(vectors.vectors, axis=1)
        result["longest_in_medians"] = float(lengths.max() / np.median(lengths))
        result |= word_tests.pooled(set_scores)
    return result


def likelihood(run: Run, vectors: Any, text: str) -> Any:
    """What `embedx train` printed as `heldout`, with the log-probability of each pair: the same
    held-out pairs.
    """
    options = vectors.settings
    settings = TextSettings.from_options(options)
    vocabulary = VocabularySettings.from_options(options)
    with encode([str(run.folder / text)], settings, Silent(), run.folder / "tokens") as encoded:
        held = hold_out(encoded.tokens, select(encoded, vocabulary)[1], options["heldout"])
    pairs, calibration = held_out.draw(held.words, held.sentences, vectors, groups=held.spans)
    return held_out.evaluate(vectors, pairs, calibration)


def by_group(pairs: Any) -> dict[str, list[Any]]:
    """The sums of the log-probabilities by group, with numbers and sizes of the groups: enough for
    any paired difference.
    """
    numbers, group = np.unique(pairs.groups, return_inverse=True)
    sums = np.bincount(group, pairs.values)
    return {
        "groups": numbers.tolist(),
        "sums": [round(value, 6) for value in sums.tolist()],
        "sizes": np.bincount(group).tolist(),
    }


EXPERIMENT = Experiment(
    name="objectives",
    title="Objectives of skip-gram, side by side",
    choices={"part": tuple(compared.PARTS), "objective": tuple(objectives.OBJECTIVES)},
    settings={
        "corpus": None,
        "minutes": 1,
        "epochs": 5,
        "tried": "3/5/10/20",
        "seeds": 3,
        "threads": 2,
        "heldout": "1%",
        "heldout_exact": "4%",
        "max_vocab": 5000,
    },
    quick={
        "minutes": 0.05,
        "epochs": 1,
        "tried": "1/2",
        "seeds": 2,
        "heldout": "5%",
        "heldout_exact": "5%",
        "max_vocab": 500,
    },
    packages=("gensim",),
    compared=table_of,
    prepare=prepare,
    jobs=jobs,
    measure=measure,
    tables={
        "ahead": tables.ahead,
        "targets": tables.targets,
        "conditions": tables.conditions,
        "time": tables.equal_time,
        **{part: partial(tables.part_table, part) for part in ("epochs", "exact")},
        "rates": tables.rates,
        "rows": tables.equal_rows,
    },
    plots={"": tables.plot, "-rates": tables.plot_rates},
    publish=tables.publish,
)
