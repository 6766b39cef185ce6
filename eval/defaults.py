"""Are objectives good at their defaults? 17 beside scikit-learn's LinearSVC and
LogisticRegression, on the same rows.

Sections: `tuned`, data on which defaults were chosen, each split into rows to train on and rows to
look at, no test file among them; `unseen`, data that were looked at only when they had been;
`augment`, both forms of augment and reduce on all of these with one label a row. Of
scikit-learn the better of the two is what objectives are held against, each at the best of a few
penalties on the very rows that are scored, which favours them.
"""

import time
import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from embedx import objectives
from embedx.classification.objective_choice import (
    ClassifierConfiguration,
    default_objective,
    new_objective,
)
from embedx.classification.run import ClassifierRun
from embedx.classification.settings import ClassifySettings
from embedx.training import life
from eval.classification_process import best, quality
from eval.defaults_data import MADE_OF, halves
from eval.experiment import Experiment, Run
from eval.page import listed, shown_settings, table
from eval.records import DEFAULT_SEED, Job, Records, Result
from eval.speed_classification import indicator

SECTIONS = {
    "tuned": ("digits", "mnist", "bibtex", "bibtex-first", "eurlex-first", "eurlex", "classes"),
    "unseen": ("omniglot", "pages", "articles", "tags"),
}
AUGMENT = "augment"
FORMS = ("utility", "noise")
AUGMENTED = ("ar", "ar-probit", "ar-logistic")
HIDDEN = {"eurlex": 100}  # sets that are trained through a hidden layer
ABOUT = {
    "digits": "8 × 8 pixels, 0 to 16; dense",
    "mnist": "pixels divided by 255, 4,000 rows; dense",
    "bibtex": "words of references, several labels; sparse",
    "bibtex-first": "the first of these labels alone",
    "eurlex-first": (
        "EURLex-4.3K, 9,000 rows, the first label alone, those that occur five times; tf-idf"
    ),
    "eurlex": "EURLex-4.3K, 5,000 rows, several labels, through --hidden 100",
    "classes": (
        "generated: 500 classes, words of a class, of its family and of the language; tf-idf"
    ),
    "omniglot": "150 characters by their pixels, rows of both files; sparse",
    "pages": "enwiki-cat, the first label alone, those that occur twenty times; tf-idf",
    "articles": "generated: words of classes that share topics, counts as they are",
    "tags": "generated: many labels a row, binary features",
}
SEVERAL = ("bibtex", "eurlex", "tags")
SINGLE = [name for name in ABOUT if name not in SEVERAL]  # one label a row
LINEAR = ("LinearSVC", "LogisticRegression")
# exact losses, and the six
FIRST = ("softmax", "ova", "margin", "ns", "hs", "ar", "ove", "implicit", "ldgs")
AUTOMATIC = "none named"  # the objective and the weights that `embedx classify` chooses by itself
CONTENDERS = (
    AUTOMATIC,
    *FIRST,
    "mips",
    "nce",
    "sampled-softmax",
    "umax",
    "bouchard",
    "ar-probit",
    "ar-logistic",
    "sgd-double-sum",
)
PENALTIES = (1.0, 10.0)  # C, divided by the mean squared length of rows
MAX_LOGISTIC = 6e7  # values × labels up to which LogisticRegression is waited for
SLOW_SVC = 3e9  # from which on LinearSVC is measured at one penalty
TARGET = 0.9  # of the better one's P@1


def jobs(run: Run) -> Iterator[Job]:
    for section in run.chosen("section"):
        if section == AUGMENT:
            yield from augment_jobs(run)
            continue
        for name in SECTIONS[section]:
            if name not in run.chosen("set"):
                continue
            if "scikit-learn" in run.chosen("contender"):
                yield from ({"set": name, "tool": tool} for tool in LINEAR)
            for objective in CONTENDERS:
                if objective in run.chosen("contender"):
                    yield {
                        "set": name,
                        "tool": "embedx",
                        "objective": objective,
                        "defaults": "now",
                        "threads": 1,
                    }


def augment_jobs(run: Run) -> Iterator[Job]:
    for name in SINGLE:
        for objective in AUGMENTED:
            for form in FORMS:
                for seed in range(1, run.settings.seeds + 1):
                    if name in run.chosen("set") and objective in run.chosen("contender"):
                        yield augment_job(name, objective, form) | {"seed": seed}


def augment_job(name: str, objective: str, form: str) -> Job:
    return {
        "section": AUGMENT,
        "set": name,
        "tool": "embedx",
        "objective": objective,
        "options": {"augment": form},
        "threads": 1,
    }


def needs(run: Run) -> list[str]:
    """The data sets that the chosen sets are made of."""
    sections = run.chosen("section")
    names = [name for section in sections for name in SECTIONS.get(section, SINGLE)]
    return [MADE_OF[name] for name in names if name in run.chosen("set") and name in MADE_OF]


def measure(run: Run, job: Job) -> Result:
    train, test = halves(run.data_folder, job["set"], run.quick)
    if job["tool"] != "embedx":
        return measure_sklearn(job["tool"], train, test)
    options: Job = {
        "threads": job["threads"],
        "seed": job.get("seed", DEFAULT_SEED),
        "hidden": HIDDEN.get(job["set"]),
        "weights": "dense",
        **job.get("options", {}),
    }
    name = job["objective"]
    if name == AUTOMATIC:
        name, options = default_objective(train, {})
        options |= {"threads": job["threads"]}
    made = new_objective(objectives.find(name), options)
    try:
        config = ClassifierConfiguration(made, ClassifySettings.from_options(options))
        trained = life.train_model(ClassifierRun(train, config))
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    metrics = trained.classifier.evaluate(test, threads=job["threads"])
    names = (
        "epochs",
        "batch_size",
        "learning_rate",
        "optimizer",
        "sampler",
        "bias",
        "l2",
        "negatives",
    )
    used = {
        name: value
        for name in names
        if (value := trained.classifier.settings.get(name)) is not None
    }
    return {
        **{
            name: float(metrics[name])
            for name in ("p@1", "p@3", "p@5", "log_likelihood")
            if name in metrics
        },
        "seconds": trained.outcome.seconds,
        "settings": used,
        "lowered_rates": trained.outcome.lowered_rates,
    }


def measure_sklearn(tool: str, train: Any, test: Any) -> Result:
    """The best of a few penalties; one-vs-rest by LinearSVC and where rows have several labels,
    else multinomial.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    values = train.features.data if train.is_sparse else train.features
    work = float(values.size) * train.n_labels
    several = bool((train.labels.n_of_row > 1).any())
    if tool == "LogisticRegression" and work > MAX_LOGISTIC:
        return {"left_out": True}
    square = float(np.square(values, dtype=np.float64).sum() / len(train))
    points = []
    for penalty in PENALTIES if work < SLOW_SVC else (1.0,):
        c = penalty / square
        if tool == "LinearSVC":
            model = LinearSVC(C=c)
        else:
            model = LogisticRegression(
                C=c, solver="liblinear" if several else "lbfgs", max_iter=100
            )
        start = time.monotonic()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the iterations end before convergence
            classes, scores = fitted(model, train, test, several)
        seconds = time.monotonic() - start
        points.append(
            {
                **quality(classes[best(scores)], indicator(test.labels, test.n_labels)),
                "seconds": seconds,
                "c": penalty,
            }
        )
        if tool == "LogisticRegression" and not several:
            points[-1]["log_likelihood"] = likelihood(model, test)
    return max(points, key=lambda point: point["p@1"])


def fitted(model: Any, train: Any, test: Any, several: bool) -> tuple[np.ndarray, np.ndarray]:
    """The labels that occur in training, and their scores of the test rows; one-vs-rest where rows
    have several labels.
    """
    if not several:
        model.fit(train.features, train.labels.ids)
        return model.classes_, model.decision_function(test.features)
    from sklearn.multiclass import OneVsRestClassifier

    seen = np.unique(train.labels.ids)
    model = OneVsRestClassifier(model).fit(
        train.features, indicator(train.labels, train.n_labels)[:, seen]
    )
    return seen, model.decision_function(test.features)


def likelihood(model: Any, test: Any) -> float:
    """The mean over rows whose label was seen."""
    seen = np.isin(test.labels.ids, model.classes_)
    log_p = model.predict_log_proba(test.features[seen])
    return float(
        log_p[np.arange(len(log_p)), np.searchsorted(model.classes_, test.labels.ids[seen])].mean()
    )


# ---- tables


def result_of(records: Records, **job: Any) -> Result | None:
    result = records.last(**job)
    return None if result is None or "left_out" in result else result


def reference(records: Records, name: str) -> float | None:
    points = [result_of(records, set=name, tool=tool) for tool in LINEAR]
    return max((point["p@1"] for point in points if point), default=None)


def precisions(section: str, records: Records) -> str:
    """P@1 by objective and set, in brackets that of records with earlier defaults; in bold what
    misses the target.
    """
    rows = [
        {"": tool}
        | {
            name: shown(result_of(records, set=name, tool=tool), "p@1")
            for name in SECTIONS[section]
        }
        for tool in LINEAR
    ]
    for objective in CONTENDERS:
        row = {"": f"`{objective}`"}
        for name in SECTIONS[section]:
            now, before = (
                result_of(records, set=name, objective=objective, defaults=which)
                for which in ("now", "before")
            )
            best = reference(records, name)
            cell = shown(now, "p@1")
            if now and best and now["p@1"] < TARGET * best:
                cell = f"**{cell}**"
            row[name] = cell + (f" ({shown(before, 'p@1')})" if before else "")
        rows.append(row)
    return table(rows)


def shown(result: Result | None, measure: str, digits: int = 3) -> str:
    return f"{result[measure]:.{digits}f}" if result and measure in result else ""


WHO: dict[str, Job] = {tool: {"tool": tool} for tool in LINEAR} | {
    f"`{name}`": {"objective": name, "defaults": "now"} for name in CONTENDERS
}


def relative(records: Records) -> str:
    """P@1 over that of the better linear reference."""
    best = {name: reference(records, name) for name in ABOUT}
    return table(
        [
            {"": who}
            | {
                name: (
                    f"{now['p@1'] / best_score:.2f}"
                    if best_score and (now := result_of(records, set=name, **job))
                    else ""
                )
                for name, best_score in best.items()
            }
            for who, job in WHO.items()
            if who not in LINEAR
        ]
    )


def table_of_all(records: Records, columns: dict[str, tuple[Any, ...]], left_out: str = "") -> str:
    """A row for each contender; of a column its set, the measure, and the digits."""
    return table(
        [
            {"": who}
            | {
                title: shown(result_of(records, set=name, **job), *what)
                for title, (name, *what) in columns.items()
            }
            for who, job in WHO.items()
            if who != left_out
        ]
    )


def likelihoods(records: Records) -> str:
    """Of data with one label a row; scores of `margin`, `ldgs` and `mips` were not trained to be
    log-probabilities.
    """
    return table_of_all(
        records,
        {name: (name, "log_likelihood") for name in ABOUT if name not in SEVERAL},
        "LinearSVC",
    )


def several(records: Records) -> str:
    """P@3 and P@5 of data with several labels."""
    return table_of_all(
        records, {f"{name} P@{k}": (name, f"p@{k}") for name in SEVERAL for k in (3, 5)}
    )


def seconds(records: Records) -> str:
    return table_of_all(records, {name: (name, "seconds", 1) for name in ABOUT})


def sets(records: Records) -> str:
    lines = []
    for name, about in ABOUT.items():
        by_tool = [
            f"{tool} C {result['c']:g}/|x|²"
            for tool in LINEAR
            if (result := result_of(records, set=name, tool=tool))
        ]
        lines.append(f"`{name}`: {about}" + (f"; {', '.join(by_tool)}" if by_tool else ""))
    return listed(lines)


def settings(records: Records) -> str:
    """What the objectives' defaults came to, on each set."""
    return listed(
        [
            f"`{objective}`, {name}: {shown_settings(result['settings'])}"
            for objective in FIRST
            for name in ABOUT
            if (result := result_of(records, set=name, objective=objective, defaults="now"))
        ]
    )


def augment_table(records: Records) -> str:
    """Means over the seeds, with the standard error of the difference of both forms, which have the
    same seeds.
    """
    rows = []
    for name in SINGLE:
        for objective in AUGMENTED:
            utility_results, noise_results = (
                {
                    record["job"]["seed"]: record["result"]
                    for record in records.succeeded(**augment_job(name, objective, form))
                }
                for form in FORMS
            )
            seeds = sorted(set(utility_results) & set(noise_results))
            if len(seeds) < 2:
                continue
            row = {"data": name, "objective": f"`{objective}`", "seeds": len(seeds)}
            for measure, title in (("p@1", "P@1"), ("log_likelihood", "log-likelihood")):
                utility = np.array([utility_results[seed][measure] for seed in seeds])
                noise = np.array([noise_results[seed][measure] for seed in seeds])
                difference = noise - utility
                error = difference.std(ddof=1) / np.sqrt(len(seeds))
                row[f"{title}, utility"] = f"{utility.mean():.3f}"
                row[f"{title}, noise"] = f"{noise.mean():.3f}"
                row[f"{title}: difference"] = f"{difference.mean():+.3f} ± {error:.3f}"
            rows.append(row)
    return table(rows)


EXPERIMENT = Experiment(
    name="defaults",
    title="Objectives of classification at their defaults",
    choices={
        "section": (*SECTIONS, AUGMENT),
        "set": tuple(ABOUT),
        "contender": ("scikit-learn", *CONTENDERS),
    },
    packages=("scipy", "scikit-learn"),
    mixed=True,  # every run has one thread, and only quality is reported
    jobs=jobs,
    needs=needs,
    measure=measure,
    settings={"seeds": 3},
    quick={"seeds": 2},
    tables={
        "sets": sets,
        **{name: partial(precisions, name) for name in SECTIONS},
        "relative": relative,
        "several": several,
        "likelihoods": likelihoods,
        "seconds": seconds,
        "settings": settings,
        "augment": augment_table,
    },
    plots={},
)
