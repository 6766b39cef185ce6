"""How far the learning rate of word vectors can be raised: held-out log-likelihood at multiples of
each objective's default rate.

Steps of `implicit` are proximal, and bounded in both factors (docs/derivations.md); those of the
other objectives are of their default optimizers. Texts are the beginning and the end of Wikipedia,
and news by sentence: `--set news=FILE`, by default the held-out shard of One Billion Words. Every
run is a process of its own and has one thread; one that diverges is not rolled back.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from embedx.skipgram.configuration import configure
from embedx.skipgram.defaults import TEXT, default_rate
from eval import corpus, datasets
from eval.experiment import Experiment, Run, in_process
from eval.page import DASH, mean_and_deviation, number, table
from eval.records import Job, Records, Result

OBJECTIVES = ("implicit", "umax", "ar", "ove", "ns", "sampled-softmax")
TEXTS = ("beginning", "end", "news")
MULTIPLES = (1, 3, 10, 100)
HELD_OUT = 0.05
FULL = {"megabytes": 3.0, "epochs": 5, "seeds": 3, "corpus": None, "news": None}
QUICK = {"megabytes": 0.4, "epochs": 1, "seeds": 1}


def jobs(run: Run) -> Iterator[Job]:
    for text in run.chosen("text"):
        for objective in run.chosen("objective"):
            for multiple in MULTIPLES:
                for seed in range(1, run.settings.seeds + 1):
                    yield {
                        "text": text,
                        "objective": objective,
                        "multiple": multiple,
                        "seed": seed,
                    }


def prepare(run: Run) -> dict[str, Any]:
    """The chosen texts, of equal size."""
    n_bytes = int(run.settings.megabytes * 1e6)
    about: dict[str, Any] = {}
    texts = run.chosen("text")
    if "beginning" in texts or "end" in texts:
        about = corpus.unpacked(run, pools_pairs=False)
        whole = Path(run.files["text"]).read_bytes()
        parts = {"beginning": corpus.first(whole, n_bytes), "end": corpus.last(whole, n_bytes)}
        for name, part in parts.items():
            run.files[name] = str(run.folder / name)
            Path(run.files[name]).write_bytes(part.strip() + b"\n")
    if "news" in texts:
        news = run.folder / "news"
        news.write_bytes(corpus.news(run, n_bytes))
        run.files["news"] = str(news)
        about = about or {"name": "news", **corpus.facts_of(news)}
    return {"corpus": about}


def needs(run: Run) -> list[str]:
    """The data sets of the chosen texts."""
    names = {"beginning": datasets.TEXT, "end": datasets.TEXT}
    if not run.settings.news:
        names["news"] = corpus.NEWS
    return list(dict.fromkeys(names[text] for text in run.chosen("text") if text in names))


def measure(run: Run, job: Job) -> Result:
    """Held-out log-likelihood by the model and by the frequencies of words."""
    rate = rate_of(job["objective"])
    options = {
        "learning_rate": rate * job["multiple"],
        "heldout": HELD_OUT,
        "epochs": run.settings.epochs,
        "seed": job["seed"],
    }
    files = {"text": run.files[job["text"]], "tokens": str(run.folder / "tokens")}
    of_process = {"objective": job["objective"], "options": options}
    result = in_process("eval.words_by_time", "train", of_process, files)
    return result if "error" in result else {"rate": rate, "heldout": result["heldout"]}


def rate_of(objective: str) -> float:
    """The default learning rate of an objective for text."""
    settings = configure(objective, {"threads": 1}).settings
    return settings.learning_rate or default_rate(settings.optimizer, TEXT)


def likelihoods(records: Records) -> str:
    """Held-out log-likelihood by text, objective and multiple of the default rate."""
    rows = []
    for text in TEXTS:
        for objective in OBJECTIVES:
            results = {
                multiple: [
                    record["result"]
                    for record in records.find(text=text, objective=objective, multiple=multiple)
                ]
                for multiple in MULTIPLES
            }
            trained = [r for some in results.values() for r in some if "error" not in r]
            if trained:
                rows.append(
                    {
                        "text": text,
                        "objective": f"`{objective}`",
                        "default rate": f"{trained[0]['rate']:g}",
                        **{f"× {multiple}": cell(some) for multiple, some in results.items()},
                        "by frequencies": number(trained[0]["heldout"]["unigram"], 3),
                    }
                )
    return table(rows)


def cell(results: list[Result]) -> str:
    """Mean and standard deviation over seeds, or how many runs diverged."""
    if not results:
        return DASH
    errors = [result["error"] for result in results if "error" in result]
    if errors:
        is_diverged = all("DivergedError" in error for error in errors)
        return f"{'diverged' if is_diverged else 'failed'}: {len(errors)} of {len(results)}"
    return mean_and_deviation([result["heldout"]["log_likelihood"] for result in results])


EXPERIMENT = Experiment(
    name="step-sizes",
    title="How far the learning rate of word vectors can be raised",
    choices={"text": TEXTS, "objective": OBJECTIVES},
    jobs=jobs,
    measure=measure,
    prepare=prepare,
    tables={"likelihoods": likelihoods},
    plots={},
    settings=FULL,
    quick=QUICK,
    needs=needs,
    mixed=True,
)
