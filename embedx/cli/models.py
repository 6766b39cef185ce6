"""The commands about trained models: describe, predict, score, query, report, export."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from embedx.cli import tables
from embedx.cli.requests import PredictRequest
from embedx.cli.streams import results_to
from embedx.errors import DataError, InapplicableError, Setting, Text
from embedx.pages.plain import as_cell
from embedx.runtime.progress import Reporter
from embedx.settings import on_command_line
from embedx.text.sources import STANDARD_INPUT

if TYPE_CHECKING:
    from embedx.evaluation.word_report import Report
    from embedx.labeled.tables import TableSettings

TopK = Annotated[int, typer.Option(min=1)]


def info(model: str, as_json: bool = False) -> None:
    """Describe a model: its size, loss, scores and changed settings.

    model  model folder, or a vector file of another program, such as word2vec's
    """
    from embedx.cli.about import about

    tables.show_facts(about(model), as_json)


def predict(request: PredictRequest) -> None:
    """List the best labels of each row, with their probabilities.

    --threshold and --coverage leave out labels that are not probable enough. A row without any is
    an empty line, or []. With K, or with a model named MODEL.bin, labels are printed as `fasttext
    predict` does. Lines of text on standard input are answered as they come.

    model            folder written by `embedx classify`
    data             in any format that `embedx classify` reads, or plain lines for a model of text;
                     labels are not used
    k                as in `fasttext predict`: number of labels, printed with their prefix alone
    least            as there: only labels of at least this probability
    top_k            maximum number of labels per row; by default 5, with --threshold 100, with
                     --coverage 1000
    threshold        only labels of at least this probability
    coverage         sets of labels that contain this share of a row's labels on average, such as
                     0.9: conformal sets, from the rows that training held out
    text_column      the column of a table with the text, if its name is not that of the training
                     data
    id_column        the column of a table that is printed first; by default that of the training
                     data, or id
    header           tables: yes or no, whether the first row of CSV and TSV is a heading; by
                     default as in the training data
    threads          worker threads; by default one per usable core
    search           score only a part of the labels, found by an index
    scored_fraction  with --search: fraction of the labels that is scored
    cluster          predict on a Ray cluster: its workers share the rows
    workers          with --cluster: worker processes; by default one per machine
    output           file to write; by default standard output
    as_json          print a JSON list or, where rows have ids, an object for each row
    """
    from embedx.cli import labels
    from embedx.cli.peers import is_fasttext_file, print_best

    with results_to(request.output, request.overwrite):
        if request.k is None and not is_fasttext_file(request.model):
            labels.predict(request)
            return
        k = request.k or request.top_k or 1
        least = request.threshold or request.least
        print_best(request.model, request.data, k, least, has_probabilities=False)


def evaluate(
    models: list[str],
    against: list[str] | None = None,
    pairs: list[Path] | None = None,
    analogies: Path | None = None,
    protocol: str = "embedx",
    method: str = "3cosadd",
    candidates: Annotated[int | None, typer.Option(min=1)] = None,
    vectors: str = "input",
    text: str | None = None,
    oov: bool = False,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    test: str | None = None,
    test_labels: str | None = None,
    label_column: str | None = None,
    header: str | None = None,
    per_label: Path | None = None,
    overwrite: bool = False,
    links: str | None = None,
    non_links: str | None = None,
    node_labels: str | None = None,
    next_item: str | None = None,
    trust_pickle: bool = False,
    quiet: bool = False,
    verbose: bool = False,
    as_json: bool = False,
) -> None:
    """Score word vectors or a classifier.

    Word vectors are scored on similarity and analogies, or by the likelihood of a --text;
    classifiers on --test data.

    models      model folder, word2vec or .vec file, or gensim's with --trust-pickle; two are
                compared, more are listed
    against     models of another configuration, or a pattern; MODELS then differ in their seed only
    protocol    embedx, or gensim: analogies among the first 300,000 words, not 30,000
    method      analogies: 3cosadd or 3cosmul
    candidates  analogies: number of words that may be the answer; by default that of the protocol
    text        log-likelihood of a text that was not trained on, named like a corpus of `embedx
                train`; similarity is then scored only with --pairs or --analogies
    oov         score words outside the vocabulary too, by their n-grams
    seed        random seed of resampling and of held-out pairs
    label_column  with --test: column with the label; by default that of the training data
    header      with --test: yes or no, whether the first row of a table is a heading; by default as
                in the training data
    per_label   with --test: CSV file to write, with counts, threshold, precision, recall and F1 of
                each label
    overwrite   replace the file of --per-label
    links       graphs: edges that were not trained on; AUC and average precision
    non_links   graphs: pairs of nodes to tell --links from; by default as many random pairs
    node_labels  graphs: a node and its labels per line; F1 of logistic regression on the vectors
    next_item   sessions, one per line: hit rate, NDCG and MRR of the last item
    """
    from embedx.storage.folder import task_of

    model, *others = models
    progress = Reporter(sys.stderr, is_quiet=quiet, is_verbose=verbose, spelling=on_command_line)
    record: dict[str, Any] = {}
    if text is not None:
        if test is not None:
            problem: Text = ("is for word vectors, ", Setting("test"), " for classifiers")
            raise InapplicableError("text", None, problem, "give one of them")
        if against:
            problem = ("does not apply with ", Setting("against"))
            raise InapplicableError("text", None, problem, "give all models as arguments")
        record["heldout"] = _score_text(models, text, seed, progress, as_json)
        if not (pairs or analogies):
            if as_json:
                print(json.dumps(record))
            return

    if test is not None or task_of(Path(model)) == "classification":
        from embedx.labeled.tables import TableSettings

        table = TableSettings(label_column=label_column, header=header)
        _evaluate_classifier(
            model, test, test_labels, table, per_label, overwrite, progress, as_json
        )
        return
    if per_label is not None:
        raise InapplicableError("per_label", None, f"is for classifiers; {model} has word vectors")

    if links or node_labels or next_item:
        from embedx.evaluation import graphs

        scores = graphs.scores(models, links, non_links, node_labels, next_item, seed, progress)
        texts = map(graphs.as_table, scores.values())
        print(json.dumps(scores) if as_json else "\n\n".join(texts))
        return

    if len(others) == 1 and not against:
        against = others
        others = []
    from embedx.evaluation import words
    from embedx.evaluation.word_sets import WordTests

    report = words.evaluate(
        [model, *others],
        against or (),
        WordTests(pairs or (), analogies, protocol, method, candidates, seed),
        which=vectors,
        oov=oov,
        trust_pickle=trust_pickle,
        progress=progress,
    )
    _show_word_scores(report, record, progress, as_json)


def _score_text(
    models: list[str], text: str, seed: int, progress: Reporter, as_json: bool
) -> dict[str, Any]:
    """The likelihood of a text under each model, for JSON; else it is printed too."""
    from embedx.cli.words import score_text

    likelihoods, lines = score_text(models, text, seed, progress)
    if not as_json:
        print("\n".join(lines))
    return likelihoods


def _evaluate_classifier(
    model: str,
    test: str | None,
    test_labels: str | None,
    table: "TableSettings",
    per_label: Path | None,
    overwrite: bool,
    progress: Reporter,
    as_json: bool,
) -> None:
    """Print the metrics of a classifier on test data."""
    from embedx.cli.labels import test_metrics
    from embedx.cli.training_results import metric_lines, plain_numbers

    metrics = test_metrics(model, test, test_labels, progress, per_label, table, overwrite)
    if as_json:
        print(json.dumps({"test": plain_numbers(metrics)}))
    else:
        print("\n".join(metric_lines(metrics)))


def _show_word_scores(
    report: "Report", record: dict[str, Any], progress: Reporter, as_json: bool
) -> None:
    """Print the scores of word vectors; for JSON together with the record of a text's scores."""
    for warning in report.warnings:
        progress.warn(warning)
    if as_json:
        print(json.dumps(record | report.as_dict()))
    elif sys.stdout.isatty():
        print(report.table())
    else:
        print(report.tsv())
        conclusions = "".join(f"{conclusion}\n" for conclusion in report.conclusions())
        print(conclusions, end="", file=sys.stderr)


def report(
    models: list[str],
    output: Path | None = None,
    overwrite: bool = False,
    test: str | None = None,
    test_labels: str | None = None,
    pairs: list[Path] | None = None,
    analogies: Path | None = None,
    quiet: bool = False,
    verbose: bool = False,
    typed: dict[str, Any] | None = None,
) -> None:
    """Write an HTML page about a model, or about two.

    It has settings, curves and scores; of word vectors nearest words and a map, of a classifier its
    errors; of two models of one task what differs.

    models  folders written by `embedx train` or `embedx classify`, one or two
    output  file to write; by default MODEL.report.html here
    """
    if len(models) > 2:
        problem = "a page is about one model, or two"
        raise DataError(models[2], None, problem, "embedx eval scores more")
    from embedx.report.report import report as write

    with Reporter(
        sys.stderr, is_quiet=quiet, is_verbose=verbose, spelling=on_command_line
    ) as progress:
        page = write(
            models[0],
            output,
            other=models[1] if models[1:] else None,
            test=test,
            test_labels=test_labels,
            pairs=pairs,
            analogies=analogies,
            overwrite=overwrite,
            progress=progress,
            **typed or {},
        )
    print(as_cell(str(page)))


def nearest(
    model: str,
    words: Annotated[list[str] | None, typer.Argument()] = None,
    top_k: TopK = 10,
    vectors: str = "input",
    restrict: Annotated[int | None, typer.Option(min=1)] = None,
    exclude: str = "",
    as_json: bool = False,
) -> None:
    """List the words nearest to each word: word, neighbour, cosine.

    model     model folder, or a vector file of another program, such as word2vec's
    words     each is looked up by itself; - reads them from standard input; without any, a terminal
              asks for them. With a model called MODEL.bin, or a file of fastText, none or a number
              of neighbours does what `fasttext nn` does
    restrict  look only at the N most frequent words
    exclude   leave out these words
    """
    from embedx import load
    from embedx.cli import fasttext_queries
    from embedx.cli.peers import folder_of
    from embedx.cli.queries import asked, neighbours
    from embedx.vectors.model import UnknownWordError

    if fasttext_queries.is_query(model, words):
        fasttext_queries.answer_words(model, int(words[0]) if words else top_k)
        return
    model_vectors = load(folder_of(model)).of(vectors)
    excluded = exclude.split(",")
    are_arguments = bool(words) and words != ["-"]
    neighbours_of_word: dict[str, list[tuple[str, float]]] = {}
    first_unknown = None
    for word in asked(words or []):
        try:
            neighbours_of_word[word] = neighbours(model_vectors, word, top_k, restrict, excluded)
        except UnknownWordError as error:
            first_unknown = first_unknown or error
            if not are_arguments:
                print(f"embedx: {error}", file=sys.stderr)
        if not are_arguments:
            # The neighbours of each word are shown as the word comes.
            _show_neighbours(neighbours_of_word, as_json)
            sys.stdout.flush()
            neighbours_of_word = {}

    if are_arguments:
        _show_neighbours(neighbours_of_word, as_json)
        if first_unknown:
            raise first_unknown


def _show_neighbours(neighbours_of_word: dict[str, list[tuple[str, float]]], as_json: bool) -> None:
    """Print the neighbours of each word; nothing where there are no words."""
    if not neighbours_of_word:
        return
    values = {
        word: [{"word": neighbour, "cosine": cosine} for neighbour, cosine in neighbours]
        for word, neighbours in neighbours_of_word.items()
    }
    rows = [
        (word, neighbour, f"{cosine:.4f}")
        for word, neighbours in neighbours_of_word.items()
        for neighbour, cosine in neighbours
    ]
    tables.show(("word", "neighbour", "cosine"), rows, values if as_json else None)


def vectors(
    model: str,
    lines: Annotated[list[str] | None, typer.Argument()] = None,
    output: Path | None = None,
    overwrite: bool = False,
    vectors: str = "input",
    quiet: bool = False,
    verbose: bool = False,
) -> None:
    """Write the vector of each line: its words, then numbers.

    The vector of a line of several words is the mean of theirs. Lines without a known word are left
    out, and counted.

    model   model folder, or a vector file of another program, such as word2vec's
    lines   - or none: those of standard input, each answered as it comes
    output  file to write: .npy has a row for each line, of zeros where no word is known; other
            names get text
    """
    from embedx import load
    from embedx.cli.queries import write_vectors

    progress = Reporter(sys.stderr, is_quiet=quiet, is_verbose=verbose, spelling=on_command_line)
    n_unknown = write_vectors(load(model).of(vectors), lines or ["-"], output, overwrite)
    if n_unknown > 0:
        progress.warn(f"lines without a known word: {n_unknown:,}")


Word = Annotated[str | None, typer.Argument()]


def analogy(
    model: str, a: str, b: Word = None, c: Word = None, top_k: TopK = 10, as_json: bool = False
) -> None:
    """A is to B as C is to what? List the answers: word, cosine.

    model  model folder, or a vector file of another program, such as word2vec's
    a      - reads three words from each line of standard input, and answers each as it comes
    """
    from embedx import load
    from embedx.cli.queries import input_lines
    from embedx.vectors.model import UnknownWordError

    loaded = load(model)
    if a != STANDARD_INPUT:
        if b is None or c is None:
            raise DataError("the question", None, "fewer than three words", "give A, B and C")
        _show_answers(loaded.analogy(a, b, c, top_k), as_json)
        return
    for number, line in enumerate(input_lines(), 1):
        words = line.split()
        if not words:
            continue
        if len(words) != 3:
            raise DataError("-", number, f"{len(words)} words", "a question has three")
        first, second, third = words
        try:
            _show_answers(loaded.analogy(first, second, third, top_k), as_json)
        except UnknownWordError as error:
            print(f"embedx: {error}", file=sys.stderr)
        sys.stdout.flush()


def _show_answers(answers: list[tuple[str, float]], as_json: bool) -> None:
    """Print the answers of one question."""
    values = [{"word": word, "cosine": cosine} for word, cosine in answers]
    rows = [(word, f"{cosine:.4f}") for word, cosine in answers]
    tables.show(("word", "cosine"), rows, values if as_json else None)


def export(
    model: str,
    out: Path,
    overwrite: bool = False,
    trust_pickle: bool = False,
    quiet: bool = False,
    verbose: bool = False,
    typed: dict[str, Any] | None = None,
) -> None:
    """Write word vectors in the format of another program, or convert a vector file.

    model  model folder, or a vector file of another program, such as word2vec's
    out    file or folder to write; .gz, .bz2, .xz compress text and .bin
    """
    from embedx import load
    from embedx.vectors.export import export as write

    progress = Reporter(sys.stderr, is_quiet=quiet, is_verbose=verbose, spelling=on_command_line)
    options = {"format": None} | (typed or {})
    written = write(
        load(model, progress, trust_pickle),
        out=out,
        overwrite=overwrite,
        progress=progress,
        **options,
    )
    print(as_cell(str(written)))
