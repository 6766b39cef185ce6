"""One measurement of speed-classification in a process of its own.

A job names its tool (one of TOOLS below) and its settings; FILES says where the data set lies in
each form that a tool reads. Seconds are of the wall clock. Imports are not timed, and neither is
what compares to them, the loading of embedx's compiled kernels: it trains a few rows beforehand.
PECOS runs in an interpreter of its own, without embedx: imports are made where used.
"""

import contextlib
import importlib.metadata
import inspect
import os
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from eval.speed_process import Files, Job, Result, bytes_in, status

TOP = 5  # labels predicted for each row


class Watch:
    """Seconds by stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def time(self, stage: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[stage] = time.perf_counter() - start


# ---- what all tools share


def quality(
    top: np.ndarray, y: Any, files: Files | None = None, first: np.ndarray | None = None
) -> dict[str, float]:
    """P@1, P@3, P@5 of the best labels int (n, 5), -1 where a tool gave fewer; y is the truth, a
    sparse indicator matrix.

    With the `files` of the training data also PSP@k, by the propensities of Jain et al. 2016 (A =
    0.55, B = 1.5), as the ratio of sums over rows. With `first`, the probability of each row's best
    label, also the calibration error: the mean over ten bins of as many rows each, by that
    probability, of |share of right predictions - mean probability|.
    """
    rows = np.repeat(np.arange(len(top)), TOP)
    hit = np.asarray(y.tocsr()[rows, np.maximum(top, 0).ravel()]).reshape(top.shape) * (top >= 0)
    metrics = {f"p@{k}": float(hit[:, :k].mean()) for k in (1, 3, 5)}
    if files is not None:
        trained = indicators(files, "train")
        scale = (np.log(trained.shape[0]) - 1) * 2.5**0.55
        weights = 1 + scale * (np.asarray(trained.sum(axis=0)).ravel() + 1.5) ** -0.55
        gain = hit * weights[np.maximum(top, 0)]
        ideal = [np.sort(weights[row])[::-1][:TOP] for row in np.split(*rows_in(y))]
        for k in (1, 3, 5):
            metrics[f"psp@{k}"] = float(gain[:, :k].sum() / sum(best[:k].sum() for best in ideal))
    if first is not None:
        bins = np.array_split(np.argsort(first, kind="stable"), 10)
        metrics["calibration"] = float(
            np.mean([abs(hit[in_bin, 0].mean() - first[in_bin].mean()) for in_bin in bins])
        )
    return metrics


def rows_in(y: Any) -> tuple[np.ndarray, np.ndarray]:
    """The labels of all rows of a sparse indicator matrix, and where those of the second row, the
    third, ... begin.
    """
    y = y.tocsr()
    return y.indices, y.indptr[1:-1]


def top_labels(predictions: Any) -> np.ndarray:
    """int (n, 5) from a list of labels for each row."""
    top = np.full((len(predictions), TOP), -1, dtype=np.int64)
    for row, labels in zip(top, predictions, strict=True):
        row[: min(len(labels), TOP)] = labels[:TOP]
    return top


def top_of_pairs(predictions: Any) -> tuple[np.ndarray, np.ndarray]:
    """The best labels, and the probability of the first of each row, from (label, probability) of
    each row, best first.
    """
    first = np.array([row[0][1] if len(row) else 0.0 for row in predictions])
    return top_labels([[label for label, _ in row] for row in predictions]), first


def best(scores: np.ndarray) -> np.ndarray:
    """int (n, 5): the places of the highest scores."""
    return np.argsort(-scores, axis=1, kind="stable")[:, :TOP]


def sparse(files: Files, watch: Watch, which: str = "XY") -> tuple[Any, Any, Any, Any]:
    """Training features, training labels, test features, test labels, float32 csr."""
    from scipy.sparse import load_npz

    with watch.time("reading"):
        matrices = [
            load_npz(f"{files['folder']}/{half}.{kind}.npz").tocsr()
            for half in ("train", "test")
            for kind in which
        ]
    return tuple(matrices)  # type: ignore[return-value]


def indicators(files: Files, half: str = "test") -> Any:
    from scipy.sparse import load_npz

    return load_npz(f"{files['folder']}/{half}.Y.npz")


def result(
    watch: Watch,
    model: Path,
    top: np.ndarray,
    files: Files,
    used: dict[str, Any],
    package: str,
    first: np.ndarray | None = None,
) -> Result:
    """The result of a peer with any number of labels for each row; `model` is what it saved."""
    return {
        **watch.seconds,
        "size": bytes_in(model),
        **quality(top, indicators(files), files, first),
        "rows": len(top),
        "used": used,
        "version": importlib.metadata.version(package),
    }


def used(function: Any, given: dict[str, Any], *names: str) -> dict[str, Any]:
    """Some parameters as they were used: given, or the tool's own default."""
    defaults = inspect.signature(function).parameters
    return {name: given.get(name, defaults[name].default) for name in names} | given


# ---- embedx


def embedx(job: Job, files: Files, scratch: Path) -> Result:
    from embedx.labeled.read import read, read_training

    watch = Watch()
    read_training(f"{files['folder']}/test.txt")  # so that the reader's kernels are loaded
    with watch.time("reading"):
        training = read_training(f"{files['folder']}/train.txt")
        test = read(f"{files['folder']}/test.txt", schema=training.schema)
    warm(job, training.rows(np.arange(min(256, len(training)))))
    with watch.time("training"):
        trained = run(job, training)
    classifier = trained.classifier
    with watch.time("prediction"):
        blocks = list(classifier.iter_top_k(test.features, TOP, threads=job["threads"]))
    top, probabilities = (np.concatenate(part) for part in zip(*blocks, strict=True))
    size = bytes_in(classifier.save(scratch / "model"))
    scores = quality(top, indicators(files), files, probabilities[:, 0])
    facts = {**watch.seconds, "size": size, **scores, "rows": len(top)}
    return facts | {"used": chosen(job, classifier.settings)}


def run(job: Job, data: Any, **other: Any) -> Any:
    from embedx import objectives
    from embedx.classification.objective_choice import ClassifierConfiguration
    from embedx.classification.run import ClassifierRun
    from embedx.classification.settings import ClassifySettings
    from embedx.training import life

    options = job["options"] | {"threads": job["threads"], "seed": job["turn"]} | other
    objective = objectives.find(job["objective"])
    settings = ClassifySettings.from_options(options)
    config = ClassifierConfiguration(objective(objective.Settings.from_options(options)), settings)
    return life.train_model(ClassifierRun(data, config))


def warm(job: Job, data: Any) -> None:
    """Have the kernels compiled or loaded, and used once."""
    classifier = run(job, data, epochs=1, max_iterations=2).classifier
    list(classifier.iter_top_k(data.features, min(TOP, data.n_labels), threads=job["threads"]))


def chosen(job: Job, settings: dict[str, Any]) -> dict[str, Any]:
    """The settings that were chosen, and those that matter as they were resolved."""
    from embedx.classification.settings import TREE_SETTINGS

    names = ["optimizer", "learning_rate", "epochs", "batch_size", "sampler", "l2", "negatives"]
    if settings["optimizer"] == "dcd":
        names = ["optimizer", "epochs", "l2", "weights", "weight_threshold"]
        if settings["weights"] == "tree":
            names += TREE_SETTINGS
    elif settings["optimizer"] == "lbfgs":
        names = ["optimizer", "l2"]
    elif settings["sampler"] in ("all", "path"):
        names.remove("negatives")
    return {name: settings[name] for name in [*names, *job["options"]] if name in settings}


# ---- peers with any number of labels for each row


def fasttext(job: Job, files: Files, scratch: Path) -> Result:
    """Reading and training are one call, so reading is measured by a second call with no epoch.

    The first of the learning rates is used at which training does not end in NaN.
    """
    import fasttext as peer

    folder = files["folder"]
    watch = Watch()
    options = {k: v for k, v in job["options"].items() if k != "rates"}
    fixed = {
        "dim": 100,
        "minCount": 1,
        "thread": job["threads"],
        "wordNgrams": 1,
        "verbose": 0,
        "seed": job["turn"],
    }
    model, rate = None, 0.0
    for rate in job["options"]["rates"]:
        try:
            with watch.time("whole"):
                model = peer.train_supervised(f"{folder}/train.ft", lr=rate, **fixed, **options)
            break
        except RuntimeError as error:
            if "NaN" not in str(error):
                raise
    if model is None:
        raise RuntimeError("NaN at each of the learning rates")
    with watch.time("reading"):
        peer.train_supervised(f"{folder}/train.ft", lr=rate, **fixed, **(options | {"epoch": 0}))
    lines = Path(f"{folder}/test.ft").read_text().splitlines()
    with watch.time("prediction"):
        predictions, probabilities = model.predict([line.split("\t")[1] for line in lines], k=TOP)
    top = top_labels(
        [[int(label.removeprefix("__label__")) for label in row] for row in predictions]
    )
    model.save_model(str(scratch / "model"))
    watch.seconds["training"] = watch.seconds.pop("whole") - watch.seconds["reading"]
    settings = options | {
        "lr": rate,
        **{k: v for k, v in fixed.items() if k not in ("verbose", "seed")},
    }
    first = np.array([row[0] if len(row) else 0.0 for row in probabilities])
    return result(watch, scratch / "model", top, files, settings, "fasttext", first)


def omikuji(job: Job, files: Files, scratch: Path) -> Result:
    """Reading and training are one call, whose log says how long training took. Prediction takes a
    row at a time.
    """
    import omikuji as peer

    watch = Watch()
    settings = peer.Model.default_hyper_param()
    for name, value in job["options"].items():
        setattr(settings, name, value)
    with watch.time("whole"), log_of_stderr(scratch / "log"):
        model = peer.Model.train_on_data(f"{files['folder']}/train.txt", settings, job["threads"])
    logged = re.search(r"Model training complete; it took ([\d.]+)s", (scratch / "log").read_text())
    total_seconds = watch.seconds.pop("whole")
    watch.seconds["training"] = float(logged[1]) if logged else total_seconds
    watch.seconds["reading"] = max(total_seconds - watch.seconds["training"], 0.0)
    x = sparse(files, Watch(), "X")[1]
    model.init_prediction_thread_pool(job["threads"])
    with watch.time("prediction"):
        predictions = []
        for row in range(x.shape[0]):
            span = slice(x.indptr[row], x.indptr[row + 1])
            pairs = list(zip(x.indices[span].tolist(), x.data[span].tolist(), strict=True))
            predictions.append(model.predict(pairs, top_k=TOP))
    with log_of_stderr(scratch / "log"):
        model.save(str(scratch / "model"))
    names = (
        "n_trees",
        "linear_loss_type",
        "linear_c",
        "linear_eps",
        "cluster_k",
        "min_branch_size",
        "max_depth",
    )
    facts = {name: getattr(settings, name) for name in names}
    top, first = top_of_pairs(predictions)
    return result(watch, scratch / "model", top, files, facts, "omikuji", first)


@contextlib.contextmanager
def log_of_stderr(file: Path) -> Iterator[None]:
    """Whatever is written to the standard error meanwhile, by a library too, goes to a file."""
    before = os.dup(2)
    with file.open("wb") as out:
        os.dup2(out.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(before, 2)
            os.close(before)


def napkinxc(job: Job, files: Files, scratch: Path) -> Result:
    from napkinxc.models import PLT

    watch = Watch()
    x, y, test, _ = sparse(files, watch)
    settings = job["options"] | {"threads": job["threads"], "seed": job["turn"]}
    model = PLT(str(scratch / "model"), **settings)
    with watch.time("training"):
        model.fit(x, y)
    model.load()
    with watch.time("prediction"):
        predictions = model.predict_proba(test, top_k=TOP)
    names = ("loss", "optimizer", "liblinear_c", "arity", "max_leaves", "tree_type", "ensemble")
    facts = used(PLT.__init__, job["options"], *names)
    top, first = top_of_pairs(predictions)
    return result(watch, scratch / "model", top, files, facts, "napkinxc", first)


def pecos(job: Job, files: Files, scratch: Path) -> Result:
    """As its own command does by default: labels embedded by PIFA, clustered, and a tree of
    classifiers.
    """
    from pecos.xmc import Indexer, LabelEmbeddingFactory
    from pecos.xmc.xlinear.model import XLinearModel

    watch = Watch()
    threads = job["threads"]
    x, y, test, _ = sparse(files, watch)
    x = x.astype(np.float32)
    y = y.astype(np.float32).tocsc()
    test = test.astype(np.float32)
    settings = {
        "nr_splits": 16,
        "max_leaf_size": 100,
        "Cp": 1.0,
        "Cn": 1.0,
        "bias": 1.0,
        "threshold": 0.1,
        **job["options"],
    }
    clustering = {name: settings[name] for name in ("nr_splits", "max_leaf_size")}
    with watch.time("training"):
        features = LabelEmbeddingFactory.create(y, x, method="pifa")
        clusters = Indexer.gen(features, threads=threads, seed=job["turn"], **clustering)
        model = XLinearModel.train(x, y, C=clusters, threads=threads, **settings)
    with watch.time("prediction"):
        predictions = model.predict(test, only_topk=TOP, beam_size=10, threads=threads).tocsr()
    rows = [predictions[row] for row in range(predictions.shape[0])]
    top = top_labels([row.indices[np.argsort(-row.data, kind="stable")] for row in rows])
    model.save(str(scratch / "model"))
    first = np.array([row.data.max(initial=0.0) for row in rows])
    return result(
        watch, scratch / "model", top, files, settings | {"beam_size": 10}, "libpecos", first
    )


def libmultilabel(job: Job, files: Files, scratch: Path) -> Result:
    """Its linear methods as their documentation has them: a tree, three trees, or one classifier
    for each label.

    Scores are arrays of all labels, so rows are predicted by hundreds.
    """
    import joblib
    from libmultilabel import linear as peer

    watch = Watch()
    options = dict(job["options"])
    x, y, test, _ = sparse(files, watch)
    method = options.pop("method")
    solver = f"-s 1 -e 0.0001 -c 1 -m {job['threads']} -q"
    with watch.time("training"):
        model = getattr(peer, f"train_{method}")(
            y, x.astype(np.float64), options=solver, verbose=False, **options
        )
    predictions = []
    with watch.time("prediction"):
        for start in range(0, test.shape[0], 200):
            scores = peer.predict_values(model, test[start : start + 200].astype(np.float64))
            top_rows = np.argpartition(-scores, TOP, axis=1)[:, :TOP]
            values = np.take_along_axis(scores, top_rows, axis=1)
            predictions.append(
                (np.take_along_axis(top_rows, best(values), axis=1), values.max(axis=1))
            )
    joblib.dump(model, scratch / "model")
    top, first = (np.concatenate(part) for part in zip(*predictions, strict=True))
    is_probability = method != "1vsrest"
    facts = {"method": method, "solver": solver.replace(" -q", ""), "beam_width": 10} | options
    return result(
        watch,
        scratch / "model",
        top,
        files,
        facts,
        "libmultilabel",
        first if is_probability else None,
    )


def linearsvc(job: Job, files: Files, scratch: Path) -> Result:
    """A classifier by scikit-learn's LinearSVC, of the labels that occur in training."""
    import joblib
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.svm import LinearSVC

    watch = Watch()
    x, y, test, _ = sparse(files, watch)
    # of a label that never occurs it would say 0, above most scores of the others
    seen = np.unique(y.indices)
    model = OneVsRestClassifier(LinearSVC(**job["options"]), n_jobs=job["threads"])
    with watch.time("training"):
        model.fit(x, y[:, seen])
    with watch.time("prediction"):
        top = seen[best(model.decision_function(test))]
    joblib.dump(model, scratch / "model")
    facts = used(LinearSVC.__init__, job["options"], "C", "loss", "tol")
    return result(watch, scratch / "model", top, files, facts, "scikit-learn")


# ---- one label for each row


def single(files: Files) -> tuple[Any, np.ndarray, Any, np.ndarray]:
    """Training features and labels, test features and labels; features dense or csr, float32."""
    halves: list[Any] = []
    for half in ("train", "test"):
        stored = Path(f"{files['folder']}/{half}.X.npz")
        if stored.exists():
            from scipy.sparse import load_npz

            halves.append(load_npz(stored).tocsr())
        else:
            halves.append(np.load(stored.with_suffix(".npy")))
        halves.append(np.load(f"{files['folder']}/{half}.y.npy"))
    return tuple(halves)  # type: ignore[return-value]


def fit_of(log_p: np.ndarray, y: np.ndarray, seen: np.ndarray) -> dict[str, float]:
    """Accuracy of all test rows; mean log-probability of those whose label occurs in training, for
    no tool knows the others.
    """
    known = np.isin(y, seen)
    likelihood = log_p[np.flatnonzero(known), y[known]].astype(np.float64).mean()
    return {
        "accuracy": float((log_p.argmax(axis=1) == y).mean()),
        "log_likelihood": float(likelihood),
    }


def embedx_single(job: Job, files: Files, scratch: Path) -> Result:
    from embedx.labeled.data import Labeled, Labels

    watch = Watch()
    x, y, test, expected = single(files)
    data = Labeled(x, Labels.single(y), int(max(y.max(), expected.max())) + 1)
    warm(job, data.rows(np.arange(min(256, len(data)))))
    with watch.time("training"):
        trained = run(job, data)
    with watch.time("prediction"):
        log_p = np.concatenate(
            [p for _, p in trained.classifier.blocks(test, threads=job["threads"])]
        )
    settings = trained.classifier.settings
    passes = (
        {"iterations": round(trained.outcome.epochs)} if settings["optimizer"] == "lbfgs" else {}
    )
    return {
        **watch.seconds,
        **fit_of(log_p, expected, np.unique(y)),
        **passes,
        "used": chosen(job, settings),
    }


def logistic_regression(job: Job, files: Files, scratch: Path) -> Result:
    """The same penalised mean loss as embedx's: C = 1 / (l2 · rows); intercepts are
    free in both.
    """
    from sklearn.linear_model import LogisticRegression

    watch = Watch()
    x, y, test, expected = single(files)
    options = job["options"]
    model = LogisticRegression(
        C=1 / (options["l2"] * len(y)), max_iter=options["max_iterations"], tol=options["tolerance"]
    )
    with watch.time("training"):
        model.fit(x, y)
    with watch.time("prediction"):
        known_log_p = model.predict_log_proba(test)
    log_p = np.full(
        (len(expected), int(max(y.max(), expected.max())) + 1), -np.inf, dtype=np.float64
    )
    log_p[:, model.classes_] = known_log_p
    return {
        **watch.seconds,
        **fit_of(log_p, expected, model.classes_),
        "iterations": int(model.n_iter_.max()),
        "used": {"solver": "lbfgs", **options},
        "version": importlib.metadata.version("scikit-learn"),
    }


# ---- scaling


def scaling(job: Job, files: Files, scratch: Path) -> Result:
    """Time for each example of random data."""
    rng = np.random.default_rng(job["turn"])
    n = job["examples"]
    d = job["features"]
    n_labels = job["labels"]
    warm(job, random_data(rng, min(n, 300), d, 1000))
    trained = run(job, random_data(rng, n, d, n_labels))
    visited = trained.outcome.epochs * n
    settings = trained.classifier.settings
    seconds = trained.outcome.seconds
    return {
        "microseconds": seconds / visited * 1e6,
        "seconds": seconds,
        "used": chosen(job, settings),
    }


def growth(job: Job, files: Files, scratch: Path) -> Result:
    """Time and memory on generated data of as many rows as labels, which are made here."""
    from embedx.labeled.data import Labeled, Labels
    from eval.generated_labels import generated

    watch = Watch()
    features, y = generated(job["labels"], job["examples"], 1)
    training = Labeled(features, Labels(y.indptr.astype(np.int64), y.indices), job["labels"])
    test, y = generated(job["labels"], job["tested"], 2)
    warm(job, training.rows(np.arange(min(256, len(training)))))
    before = status("VmHWM")
    with watch.time("training"):
        classifier = run(job, training).classifier
    trained = status("VmHWM")
    with watch.time("prediction"):
        top = np.concatenate(
            [ids for ids, _ in classifier.iter_top_k(test, TOP, threads=job["threads"])]
        )
    return {
        **watch.seconds,
        **quality(top, y),
        "rows": len(top),
        "values": int(training.features.nnz),
        "data": before,
        "trained": trained,
        "size": sum(array.nbytes for array in classifier.arrays.values()),
        "used": chosen(job, classifier.settings),
    }


def random_data(rng: np.random.Generator, n: int, d: int, n_labels: int) -> Any:
    from embedx.labeled.data import Labeled, Labels

    features = (rng.standard_normal((n, d)) / np.sqrt(d)).astype(np.float32)
    return Labeled(features, Labels.single(rng.integers(n_labels, size=n)), n_labels)


TOOLS = {
    "embedx": embedx,
    "fastText": fasttext,
    "omikuji": omikuji,
    "napkinXC": napkinxc,
    "PECOS": pecos,
    "LibMultiLabel": libmultilabel,
    "LinearSVC": linearsvc,
    "embedx single": embedx_single,
    "LogisticRegression": logistic_regression,
    "embedx scaling": scaling,
    "embedx growth": growth,
}


def measure(job: Job, files: Files) -> Result:
    with tempfile.TemporaryDirectory() as scratch:
        return TOOLS[job["tool"]](job, files, Path(scratch)) | {"peak": status("VmHWM")}
