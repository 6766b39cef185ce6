"""The commands about trained models: predict, score, query, report, convert; and the phrases of a text."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import typer

from embedx.cli import tables
from embedx.cli.options import (
    Analogies,
    CacheDir,
    Json,
    Model,
    Overwrite,
    Pairs,
    Quiet,
    Test,
    TestLabels,
    TopK,
    TrustPickle,
    WhichVectors,
    option,
)
from embedx.cli.streams import is_read_at_once
from embedx.distributed.settings import MAX_WORKERS, ClusterSettings
from embedx.errors import EmbedxError
from embedx.settings import MOST_THREADS
from embedx.training.progress import Reporter

Corpora = Annotated[list[str], typer.Argument(metavar="CORPUS...", help="as for `embedx train`")]


def predict(
    model: Annotated[str, typer.Argument(metavar="DIR", help="folder written by `embedx classify`")],
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="in any format that `embedx classify` reads; labels are not used")
    ],
    top_k: TopK = 5,
    threads: Annotated[int | None, option("worker threads; by default one per usable core", min=1, max=MOST_THREADS)] = None,
    search: Annotated[bool, option("score only a part of the labels, found by an index", "--search")] = False,
    scored_fraction: Annotated[float, option("with --search: fraction of the labels that is scored", min=0, max=1)] = 0.05,
    cluster: Annotated[str | None, option("predict on a Ray cluster: its workers share the rows")] = None,
    workers: Annotated[
        int | None, option("with --cluster: worker processes; by default one per machine", min=1, max=MAX_WORKERS)
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """List the most probable labels of each row: label, probability, label, probability, ..."""
    from embedx.cli import commands

    on = ClusterSettings(cluster, workers)
    reporter = Reporter(sys.stderr, is_quiet=quiet, is_alone=not is_read_at_once())
    scored = scored_fraction if search else None
    for labels in commands.predict(model, data, top_k, threads, scored, on, reporter):
        if as_json:
            print(json.dumps([{"label": label, "probability": probability} for label, probability in labels]))
        else:
            print("\t".join(f"{label}\t{probability:.4g}" for label, probability in labels))


def evaluate(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL [OTHER]",
            help="model folder, word2vec or .vec file, or gensim's with --trust-pickle; with OTHER the two are compared",
        ),
    ],
    against: Annotated[
        list[str] | None,
        option("models of another configuration, or a pattern; MODEL may then be several models that differ in their seed"),
    ] = None,
    pairs: Pairs = None,
    analogies: Analogies = None,
    protocol: Annotated[str, option("embedx, or gensim: analogies among the first 300,000 words, not 30,000")] = "embedx",
    method: Annotated[str, option("analogies: 3cosadd or 3cosmul")] = "3cosadd",
    candidates: Annotated[
        int | None, option("analogies: number of words that may be the answer; by default that of the protocol", min=1)
    ] = None,
    vectors: WhichVectors = "input",
    heldout: Annotated[
        str | None,
        option(
            "log-likelihood of a text that was not trained on, named like a CORPUS; similarity is then scored only with "
            "--pairs or --analogies"
        ),
    ] = None,
    oov: Annotated[bool, option("score words outside the vocabulary too, by their n-grams", "--oov")] = False,
    seed: Annotated[int, option("random seed of resampling and of held-out pairs", min=0)] = 0,
    test: Test = None,
    test_labels: TestLabels = None,
    trust_pickle: TrustPickle = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Score word vectors on similarity and analogies, or on --heldout text, or a classifier on --test data."""
    from embedx.storage.folder import task_of

    model, *runs = models
    other = runs.pop() if len(runs) == 1 and not against else None
    progress = Reporter(sys.stderr, is_quiet=quiet)
    found: dict[str, Any] = {}
    if heldout is not None:
        from embedx.cli import commands

        if test is not None:
            raise EmbedxError("--heldout is for word vectors, --test for classifiers; give one of them")
        if runs or against:
            raise EmbedxError("--heldout compares two models at most; leave out --against and the others")
        likelihoods, difference = commands.heldout(model, other, heldout, seed, progress)
        found["heldout"] = commands.heldout_json(likelihoods, difference)
        if not as_json:
            print("\n".join(commands.heldout_lines(likelihoods, difference)))
        if not pairs and analogies is None:
            if as_json:
                print(json.dumps(found))
            return
    if test is not None or task_of(Path(model)) == "classification":
        from embedx.cli import commands

        metrics = commands.test_classifier(model, test, test_labels, progress)
        print(json.dumps({"test": commands.plain_numbers(metrics)}) if as_json else "\n".join(commands.metric_lines(metrics)))
        return
    from embedx.evaluation import words
    from embedx.evaluation.word_sets import WordTests

    tests = WordTests(pairs or (), analogies, protocol, method, candidates, seed)
    others = [*([other] if other else ()), *(against or ())]
    report = words.evaluate([model, *runs], others, tests, which=vectors, oov=oov, trust_pickle=trust_pickle, progress=progress)
    for warning in report.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    if as_json:
        print(json.dumps(found | report.as_dict()))
    elif sys.stdout.isatty():
        print(report.table())
    else:
        print(report.tsv())
        print("".join(f"{each}\n" for each in report.conclusions()), end="", file=sys.stderr)


def report(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="folder written by `embedx train` or `embedx classify`")],
    output: Annotated[Path | None, option("file to write; by default MODEL.report.html here", "--output", "-o")] = None,
    overwrite: Overwrite = False,
    test: Test = None,
    test_labels: TestLabels = None,
    pairs: Pairs = None,
    analogies: Analogies = None,
    quiet: Quiet = False,
    typed: dict[str, Any] | None = None,
) -> None:
    """Write an HTML page about a model: settings, curves, scores, nearest words and a map, or the errors of a classifier."""
    from embedx.report.report import report as write

    with Reporter(sys.stderr, is_quiet=quiet) as reporter:
        page = write(
            model, output, test=test, test_labels=test_labels, pairs=pairs, analogies=analogies,
            overwrite=overwrite, progress=reporter, **typed or {},
        )  # fmt: skip
    print(page)


def phrases(
    corpora: Corpora,
    top_k: Annotated[int | None, option("number of results to list; by default all", min=1)] = None,
    cache_dir: CacheDir = None,
    quiet: Quiet = False,
    as_json: Json = False,
    typed: dict[str, Any] | None = None,
) -> None:
    """List the collocations of a text, the highest score first: words joined by _, count, score, number of the pass."""
    given = SimpleNamespace(**locals())
    from embedx.cli import commands

    found = commands.phrases(given)[:top_k]
    values = [
        {"phrase": each.joined, "words": each.words, "count": each.times, "score": each.score, "pass": number}
        for number, each in found
    ]
    rows = [(each.joined, str(each.times), f"{each.score:.4f}", str(number)) for number, each in found]
    tables.show(("phrase", "count", "score", "pass"), rows, values if as_json else None)


def nearest(
    model: Model,
    words: Annotated[list[str], typer.Argument(metavar="WORD...", help="each is looked up by itself")],
    top_k: TopK = 10,
    vectors: WhichVectors = "input",
    as_json: Json = False,
) -> None:
    """List the words nearest to each WORD: word, neighbour, cosine."""
    from embedx import load

    chosen = load(model).of(vectors)
    found = {word: chosen.most_similar(word, top_k=top_k) for word in words}
    values = {word: [{"word": w, "cosine": cosine} for w, cosine in near] for word, near in found.items()}
    rows = [(word, neighbour, f"{cosine:.4f}") for word, near in found.items() for neighbour, cosine in near]
    tables.show(("word", "neighbour", "cosine"), rows, values if as_json else None)


def analogy(
    model: Model,
    a: Annotated[str, typer.Argument(metavar="A")],
    b: Annotated[str, typer.Argument(metavar="B")],
    c: Annotated[str, typer.Argument(metavar="C")],
    top_k: TopK = 10,
    as_json: Json = False,
) -> None:
    """A is to B as C is to what? List the answers: word, cosine."""
    from embedx import load

    rows = load(model).analogy(a, b, c, top_k)
    values = [{"word": word, "cosine": cosine} for word, cosine in rows]
    tables.show(("word", "cosine"), [(word, f"{cosine:.4f}") for word, cosine in rows], values if as_json else None)


def convert(
    model: Model,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="file or folder to write; .gz, .bz2, .xz compress text and .bin")],
    overwrite: Overwrite = False,
    trust_pickle: TrustPickle = False,
    quiet: Quiet = False,
    typed: dict[str, Any] | None = None,
) -> None:
    """Write word vectors in the format of another program."""
    from embedx import load
    from embedx.vectors.export import export

    reporter = Reporter(sys.stderr, is_quiet=quiet)
    options = {"format": None} | (typed or {})
    print(export(load(model, reporter, trust_pickle), out=out, overwrite=overwrite, progress=reporter, **options))
