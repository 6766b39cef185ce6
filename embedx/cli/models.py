"""The commands about trained models: predict, score, query, report, export."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import typer

from embedx.cli import tables
from embedx.distributed.settings import MAX_WORKERS
from embedx.errors import EmbedxError
from embedx.settings import MAX_THREADS
from embedx.training.progress import Reporter

TopK = Annotated[int, typer.Option(min=1)]


def predict(
    model: str,
    data: str,
    top_k: Annotated[int | None, typer.Option(min=1)] = None,
    threshold: Annotated[float | None, typer.Option(min=0, max=1)] = None,
    coverage: Annotated[float | None, typer.Option(min=0, max=1)] = None,
    text_column: str | None = None,
    id_column: str | None = None,
    threads: Annotated[int | None, typer.Option(min=1, max=MAX_THREADS)] = None,
    search: bool = False,
    scored_fraction: Annotated[float, typer.Option(min=0, max=1)] = 0.05,
    cluster: str | None = None,
    workers: Annotated[int | None, typer.Option(min=1, max=MAX_WORKERS)] = None,
    quiet: bool = False,
    as_json: bool = False,
) -> None:
    """List the best labels of each row, with their probabilities.

    --threshold and --coverage leave out labels that are not probable enough. A row without any is an empty line, or [].

    model            folder written by `embedx classify`
    data             in any format that `embedx classify` reads, or plain lines for a model of text; labels are not used
    top_k            maximum number of labels per row; by default 5, with --threshold 100, with --coverage 1000
    threshold        only labels of at least this probability
    coverage         sets of labels that contain this share of a row's labels on average, such as 0.9: conformal sets, from
                     the rows that training held out
    text_column      the column of a table with the text, if it is called otherwise than in the training data
    id_column        the column of a table that is printed first; by default that of the training data, or id
    threads          worker threads; by default one per usable core
    search           score only a part of the labels, found by an index
    scored_fraction  with --search: fraction of the labels that is scored
    cluster          predict on a Ray cluster: its workers share the rows
    workers          with --cluster: worker processes; by default one per machine
    as_json          print a JSON list or, where rows have ids, an object for each row
    """
    given = SimpleNamespace(**locals())
    from embedx.cli import labels

    labels.predict(given)


def evaluate(
    models: list[str],
    against: list[str] | None = None,
    pairs: list[Path] | None = None,
    analogies: Path | None = None,
    categories: list[Path] | None = None,
    outliers: list[Path] | None = None,
    protocol: str = "embedx",
    method: str = "3cosadd",
    candidates: Annotated[int | None, typer.Option(min=1)] = None,
    vectors: str = "input",
    text: str | None = None,
    oov: bool = False,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    test: str | None = None,
    test_labels: str | None = None,
    per_label: Path | None = None,
    trust_pickle: bool = False,
    quiet: bool = False,
    as_json: bool = False,
) -> None:
    """Score word vectors or a classifier.

    Word vectors are scored on similarity and analogies, or by the likelihood of a --text; classifiers on --test data.

    models      model folder, word2vec or .vec file, or gensim's with --trust-pickle; two are compared
    against     models of another configuration, or a pattern; MODELS may then be several that differ in their seed
    categories  words with their categories: purity of clusters
    outliers    groups of words with outliers, as 8-8-8: file or folder of files
    protocol    embedx, or gensim: analogies among the first 300,000 words, not 30,000
    method      analogies: 3cosadd or 3cosmul
    candidates  analogies: number of words that may be the answer; by default that of the protocol
    text        log-likelihood of a text that was not trained on, named like a corpus of `embedx train`; similarity is then
                scored only with --pairs or --analogies
    oov         score words outside the vocabulary too, by their n-grams
    seed        random seed of resampling and of held-out pairs
    per_label   with --test: CSV file to write, with counts, threshold, precision, recall and F1 of each label
    """
    from embedx.storage.folder import task_of

    model, *runs = models
    progress = Reporter(sys.stderr, is_quiet=quiet)
    found = {}
    if text is not None:
        from embedx.cli.words import score_text

        if test is not None:
            raise EmbedxError("--text is for word vectors, --test for classifiers; give one of them")
        if len(runs) > 1 or against:
            raise EmbedxError("--text compares two models at most; leave out --against and the others")
        found["heldout"], lines = score_text(models, text, seed, progress)
        if not as_json:
            print("\n".join(lines))
        if not (pairs or analogies or categories or outliers):
            if as_json:
                print(json.dumps(found))
            return
    if test is not None or task_of(Path(model)) == "classification":
        from embedx.cli.labels import test_metrics
        from embedx.cli.run import metric_lines, plain_numbers

        metrics = test_metrics(model, test, test_labels, progress, per_label)
        print(json.dumps({"test": plain_numbers(metrics)}) if as_json else "\n".join(metric_lines(metrics)))
        return
    if per_label is not None:
        raise EmbedxError(f"{model}: word vectors; --per-label is for classifiers")
    if len(runs) == 1 and not against:
        against, runs = runs, []
    from embedx.evaluation import words
    from embedx.evaluation.word_sets import WordTests

    tests = WordTests(pairs or (), analogies, categories or (), outliers or (), protocol, method, candidates, seed)
    how: dict[str, Any] = {"which": vectors, "oov": oov, "trust_pickle": trust_pickle, "progress": progress}
    report = words.evaluate([model, *runs], against or (), tests, **how)
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
    model: str,
    output: Path | None = None,
    overwrite: bool = False,
    test: str | None = None,
    test_labels: str | None = None,
    pairs: list[Path] | None = None,
    analogies: Path | None = None,
    quiet: bool = False,
    typed: dict[str, Any] | None = None,
) -> None:
    """Write an HTML page about a model.

    It has settings, curves and scores; of word vectors nearest words and a map, of a classifier its errors.

    model   folder written by `embedx train` or `embedx classify`
    output  file to write; by default MODEL.report.html here
    """
    from embedx.report.report import report as write

    with Reporter(sys.stderr, is_quiet=quiet) as reporter:
        page = write(
            model, output, test=test, test_labels=test_labels, pairs=pairs, analogies=analogies,
            overwrite=overwrite, progress=reporter, **typed or {},
        )  # fmt: skip
    print(page)


def nearest(model: str, words: list[str], top_k: TopK = 10, vectors: str = "input", as_json: bool = False) -> None:
    """List the words nearest to each word: word, neighbour, cosine.

    model  model folder, or a vector file of another program, such as word2vec's
    words  each is looked up by itself
    """
    from embedx import load

    chosen = load(model).of(vectors)
    found = {word: chosen.most_similar(word, top_k=top_k) for word in words}
    values = {word: [{"word": w, "cosine": cosine} for w, cosine in near] for word, near in found.items()}
    rows = [(word, neighbour, f"{cosine:.4f}") for word, near in found.items() for neighbour, cosine in near]
    tables.show(("word", "neighbour", "cosine"), rows, values if as_json else None)


def analogy(model: str, a: str, b: str, c: str, top_k: TopK = 10, as_json: bool = False) -> None:
    """A is to B as C is to what? List the answers: word, cosine.

    model  model folder, or a vector file of another program, such as word2vec's
    """
    from embedx import load

    rows = load(model).analogy(a, b, c, top_k)
    values = [{"word": word, "cosine": cosine} for word, cosine in rows]
    tables.show(("word", "cosine"), [(word, f"{cosine:.4f}") for word, cosine in rows], values if as_json else None)


def export(
    model: str,
    out: Path,
    overwrite: bool = False,
    trust_pickle: bool = False,
    quiet: bool = False,
    typed: dict[str, Any] | None = None,
) -> None:
    """Write word vectors in the format of another program, or convert a vector file.

    model  model folder, or a vector file of another program, such as word2vec's
    out    file or folder to write; .gz, .bz2, .xz compress text and .bin
    """
    from embedx import load
    from embedx.vectors.export import export as write

    reporter = Reporter(sys.stderr, is_quiet=quiet)
    options = {"format": None} | (typed or {})
    print(write(load(model, reporter, trust_pickle), out=out, overwrite=overwrite, progress=reporter, **options))
