"""The commands that ask a model, score it, write a page about it, or write it in another format."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from embedx.cli import tables
from embedx.cli.options import CacheDir, Json, Model, Overwrite, Quiet, TopK, TrustPickle, WhichVectors, number, path_for
from embedx.cli.streams import is_read_at_once
from embedx.distributed.settings import MAX_WORKERS, ClusterSettings, check_cluster_settings
from embedx.errors import EmbedxError
from embedx.settings import MOST_THREADS
from embedx.training.progress import Reporter

SCORED_FRACTION = 0.05  # of the labels, by `predict --search`


def predict(
    model: Annotated[str, typer.Argument(metavar="DIR", help="folder that `embedx classify` wrote")],
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="in any format that `embedx classify` reads; labels are not used")
    ],
    top_k: Annotated[
        int, typer.Option("--top-k", parser=number(int, "--top-k", at_least=1), help="how many labels to list for each row")
    ] = 5,
    threads: Annotated[
        int | None,
        typer.Option(
            "--threads",
            parser=number(int, "--threads", at_least=1, at_most=MOST_THREADS),
            help="by default one for each usable core",
        ),
    ] = None,
    search: Annotated[bool, typer.Option("--search", help="look through a part of the labels only, by an index")] = False,
    scored_fraction: Annotated[
        float | None,
        typer.Option(
            "--scored-fraction",
            parser=number(float, "--scored-fraction", at_least=0, at_most=1),
            help=f"with --search, the fraction of all labels that is scored  [default: {SCORED_FRACTION}]",
            show_default=False,
        ),
    ] = None,
    query: Annotated[
        float | None, typer.Option("--query", parser=number(float, "--query", at_least=0, at_most=1), hidden=True)
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster", help="predict on a Ray cluster, by workers that have some of the labels each; as with `classify`"
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            parser=number(int, "--workers", at_least=1, at_most=MAX_WORKERS),
            help="with --cluster: worker processes, each with --threads threads; by default one for each machine",
        ),
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """List the likeliest labels of each row: label, probability, label, probability, ..."""
    from embedx.cli import commands

    if scored_fraction is not None and query is not None:
        raise EmbedxError("--query is the former name of --scored-fraction; give one of them")
    check_cluster_settings({"cluster": cluster, "workers": workers})
    on = ClusterSettings(cluster=cluster, workers=workers)
    scored = next((each for each in (scored_fraction, query) if each is not None), SCORED_FRACTION)
    reporter = Reporter(sys.stderr, is_quiet=quiet, is_alone=not is_read_at_once())
    for labels in commands.predict(model, data, top_k, threads, scored if search else None, on, reporter):
        if as_json:
            print(json.dumps([{"label": label, "probability": probability} for label, probability in labels]))
        else:
            print("\t".join(f"{label}\t{probability:.4g}" for label, probability in labels))


def evaluate(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL [OTHER]",
            help="model folder, word2vec or .vec file, or gensim's with --trust-pickle; a second is compared pair by pair",
        ),
    ],
    against: Annotated[
        list[str] | None,
        typer.Option(
            "--against", help="models of another configuration, or a pattern; MODEL may then be several, of several seeds"
        ),
    ] = None,
    pairs: Annotated[
        list[Path] | None, typer.Option("--pairs", help="word pairs with scores, instead of the packaged sets")
    ] = None,
    analogies: Annotated[
        Path | None, typer.Option("--analogies", help="questions in sections, in the layout of Google's")
    ] = None,
    categories: Annotated[
        list[Path] | None, typer.Option("--categories", help="words with their categories: purity of clusters")
    ] = None,
    outliers: Annotated[
        list[Path] | None, typer.Option("--outliers", help="file, or folder of files, of groups with their outliers, as 8-8-8")
    ] = None,
    protocol: Annotated[
        str, typer.Option("--protocol", help="embedx, or gensim: its own functions, one question at a time")
    ] = "embedx",
    method: Annotated[str | None, typer.Option("--method", help="analogies: 3cosadd, which is the default, or 3cosmul")] = None,
    candidates: Annotated[
        int | None,
        typer.Option(
            "--candidates",
            parser=number(int, "--candidates", at_least=1),
            help="analogies: answers are sought among so many words; by default the protocol's",
        ),
    ] = None,
    vectors: WhichVectors = "input",
    heldout: Annotated[
        str | None,
        typer.Option(
            "--heldout",
            help="text that was not trained on, named like a CORPUS: log-likelihood of its pairs; "
            "similarity is then scored only with --pairs or --analogies",
        ),
    ] = None,
    oov: Annotated[
        bool,
        typer.Option("--oov", help="score pairs of words outside the vocabulary too, by their n-grams, if the model has such"),
    ] = False,
    seed: Annotated[
        int,
        typer.Option("--seed", parser=number(int, "--seed", at_least=0), help="of resampling, and of the held-out pairs"),
    ] = 0,
    test: Annotated[str | None, typer.Option("--test", help="classifiers: the data to score them on")] = None,
    test_labels: Annotated[str | None, typer.Option("--test-labels", help="labels of --test, where it holds none")] = None,
    trust_pickle: TrustPickle = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Score word vectors on similarity and analogies, or on --heldout text, or a classifier on --test data."""
    from embedx.storage.folder import task_of

    model, *runs = models
    other = runs.pop() if len(runs) == 1 and not against else None
    told: dict[str, Any] = {}
    if heldout is not None:
        from embedx.cli import commands

        if test is not None:
            raise EmbedxError("--heldout is for word vectors, --test for classifiers; give one of them")
        if runs or against:
            raise EmbedxError("--heldout compares two models at most; leave out --against and the others")
        likelihoods, difference = commands.heldout(model, other, heldout, seed, Reporter(sys.stderr, is_quiet=quiet))
        told["heldout"] = commands.heldout_json(likelihoods, difference)
        if not as_json:
            print("\n".join(commands.heldout_lines(likelihoods, difference)))
        if not pairs and analogies is None:
            if as_json:
                print(json.dumps(told))
            return
    if test is not None or task_of(Path(model)) == "classification":
        from embedx.cli import commands

        metrics = commands.test_classifier(model, test, test_labels, Reporter(sys.stderr, is_quiet=quiet))
        print(json.dumps({"test": commands.plain_numbers(metrics)}) if as_json else "\n".join(commands.metric_lines(metrics)))
        return
    from embedx.evaluation import words

    report = words.evaluate(
        model,
        other,
        runs=runs,
        against=against or (),
        pairs=pairs or (),
        analogies=analogies,
        categories=categories or (),
        outliers=outliers or (),
        protocol=protocol,
        method=method,
        candidates=candidates,
        which=vectors,
        oov=oov,
        seed=seed,
        trust_pickle=trust_pickle,
        progress=Reporter(sys.stderr, is_quiet=quiet),
    )
    for warning in report.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    if as_json:
        print(json.dumps(told | report.as_dict()))
    elif sys.stdout.isatty():
        print(report.table())
    else:
        print(report.tsv())
        print("".join(f"{each}\n" for each in report.conclusions()), end="", file=sys.stderr)


def report(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="folder that `embedx train` or `embedx classify` wrote")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            parser=path_for("--output"),
            help="file to write; by default MODEL.report.html in the working folder",
        ),
    ] = None,
    overwrite: Overwrite = False,
    test: Annotated[str | None, typer.Option("--test", help="classifiers: the data to score them on")] = None,
    test_labels: Annotated[str | None, typer.Option("--test-labels", help="labels of --test, where it holds none")] = None,
    pairs: Annotated[
        list[Path] | None, typer.Option("--pairs", help="word vectors: word pairs with scores, instead of the packaged sets")
    ] = None,
    analogies: Annotated[
        Path | None, typer.Option("--analogies", help="word vectors: questions in sections, in the layout of Google's")
    ] = None,
    log_json: Annotated[
        Path | None, typer.Option("--log-json", help="what --log-json of the training wrote, for the curve of the loss")
    ] = None,
    quiet: Quiet = False,
    typed: Annotated[dict[str, Any] | None, typer.Option(hidden=True, parser=json.loads)] = None,
) -> None:
    """Write one HTML page about a model: settings, curves, scores, nearest words and a map, or where its answers go wrong."""
    from embedx.cli import commands

    with Reporter(sys.stderr, is_quiet=quiet) as reporter:
        page = commands.report(
            model, typed or {}, output=output, overwrite=overwrite, test=test, test_labels=test_labels, pairs=pairs,
            analogies=analogies, log_json=log_json, progress=reporter,
        )  # fmt: skip
    print(page)


def phrases(
    corpora: Annotated[list[str], typer.Argument(metavar="CORPUS...", help="as for `embedx train`")],
    top_k: Annotated[
        int | None, typer.Option("--top-k", parser=number(int, "--top-k", at_least=1), help="how many to list; by default all")
    ] = None,
    cache_dir: CacheDir = None,
    quiet: Quiet = False,
    as_json: Json = False,
    typed: Annotated[dict[str, Any] | None, typer.Option(hidden=True, parser=json.loads)] = None,
) -> None:
    """List the collocations of a text, the highest score first: words joined by _, count, score, number of the pass."""
    from embedx.cli import commands

    found = commands.phrases(corpora, typed or {}, cache_dir, Reporter(sys.stderr, is_quiet=quiet))[:top_k]
    if as_json:
        names = ("phrase", "words", "count", "score", "pass")
        rows = [(each.joined, each.words, each.times, each.score, number) for number, each in found]
        print(json.dumps([dict(zip(names, row, strict=True)) for row in rows]))
    else:
        cells = [(each.joined, str(each.times), f"{each.score:.4f}", str(number)) for number, each in found]
        tables.show(("phrase", "count", "score", "pass"), cells)


def nearest(
    model: Model,
    words: Annotated[list[str], typer.Argument(metavar="WORD...", help="each is looked up for itself")],
    top_k: TopK = 10,
    vectors: WhichVectors = "input",
    as_json: Json = False,
) -> None:
    """List the words nearest to each WORD: word, neighbour, cosine."""
    from embedx import load

    chosen = load(model).of(vectors)
    found = {word: chosen.most_similar(word, top_k=top_k) for word in words}
    if as_json:
        print(json.dumps({word: [{"word": w, "cosine": c} for w, c in rows] for word, rows in found.items()}))
    else:
        rows = [(word, neighbour, f"{cosine:.4f}") for word, near_it in found.items() for neighbour, cosine in near_it]
        tables.show(("word", "neighbour", "cosine"), rows)


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
    if as_json:
        print(json.dumps([{"word": word, "cosine": cosine} for word, cosine in rows]))
    else:
        tables.show(("word", "cosine"), [(word, f"{cosine:.4f}") for word, cosine in rows])


def export(
    model: Model,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="file or folder to write; .gz, .bz2, .xz compress text and .bin")],
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    typed: Annotated[dict[str, Any] | None, typer.Option(hidden=True, parser=json.loads)] = None,
) -> None:
    """Write word vectors in another program's format."""
    convert(model, out, overwrite=overwrite, quiet=quiet, typed=typed)


def convert(
    model: Model,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="file or folder to write; .gz, .bz2, .xz compress text and .bin")],
    overwrite: Overwrite = False,
    trust_pickle: TrustPickle = False,
    quiet: Quiet = False,
    typed: Annotated[dict[str, Any] | None, typer.Option(hidden=True, parser=json.loads)] = None,
) -> None:
    """Write the word vectors of one program's file in the format of another."""
    from embedx import load
    from embedx.vectors import export as exporting

    options = {"format": None} | (typed or {})
    reporter = Reporter(sys.stderr, is_quiet=quiet)
    print(exporting.export(load(model, reporter, trust_pickle), out=out, overwrite=overwrite, progress=reporter, **options))
