"""The commands about trained models: describe, predict, score, query, report, export."""

from pathlib import Path
from typing import Annotated, Any

import typer

from embedx.cli import tables
from embedx.cli.requests import EvaluateRequest, NearestRequest, PredictRequest, ReportRequest
from embedx.cli.streams import command_progress, request_progress, results_to
from embedx.errors import DataError, InapplicableError
from embedx.pages.plain import as_cell
from embedx.text.sources import STANDARD_INPUT

TopK = Annotated[int, typer.Option(min=1)]


def info(model: str, as_json: bool = False) -> None:
    """Describe a model: its size, loss, scores and changed settings.

    model  model folder, or a vector file of another program, such as word2vec's
    """
    from embedx.cli.about import about, with_origins

    record = about(model)
    if not as_json:
        record = with_origins(record)
    tables.show_facts(record, as_json)


def reproduce(
    model: str,
    output: Path | None = None,
    as_json: bool = False,
    quiet: bool = False,
) -> None:
    """Train a model again by its recorded command, and say whether the bytes are equal.

    Names of files are those of the folder in which the model was trained. The data are compared by
    their recorded hash first.

    model   folder written by `embedx train` or `embedx classify`
    output  the new model folder; by default MODEL.again
    """
    from embedx.cli import reproduce as again

    again.reproduce(model, output, as_json, quiet)


def predict(request: PredictRequest) -> None:
    """List the best labels of each row, with their probabilities.

    --threshold and --coverage leave out labels that are not probable enough. A row without any is
    an empty line, or []. With K, or with a model named MODEL.bin, labels are printed as `fasttext
    predict` does. Lines of text on standard input are answered as they come.
    """
    from embedx.cli import labels, peers

    answers_as_fasttext = request.k is not None or peers.is_named_as_fasttext(request.model)
    with results_to(request.output, request.overwrite):
        if answers_as_fasttext:
            peers.predict(request)
        else:
            labels.predict(request)


def evaluate(request: EvaluateRequest) -> None:
    """Score word vectors or a classifier.

    Word vectors are scored on similarity and analogies, or by the likelihood of a --text;
    classifiers on --test data.
    """
    from embedx.cli import scores

    scores.evaluate(request)


def report(request: ReportRequest) -> None:
    """Write an HTML page about a model, or about two.

    It has settings, curves and scores; of word vectors nearest words and a map, of a classifier its
    errors; of two models of one task what differs.
    """
    from embedx.report.report import report as write

    if len(request.models) > 2:
        problem = "a page is about one model, or two"
        raise DataError(request.models[2], None, problem, "compare more with `embedx eval`")
    other = None
    if len(request.models) == 2:
        other = request.models[1]
    with request_progress(request) as progress:
        page = write(
            request.models[0],
            request.output,
            other=other,
            test=request.test,
            test_labels=request.test_labels,
            pairs=request.pairs,
            analogies=request.analogies,
            overwrite=request.overwrite,
            progress=progress,
            **request.options,
        )
    print(as_cell(str(page)))


def nearest(request: NearestRequest) -> None:
    """List the words nearest to each word: word, neighbour, cosine."""
    from embedx.cli import fasttext_queries, queries
    from embedx.cli.peers import model_folder_of
    from embedx.vectors.model import load
    from embedx.vectors.names import names_of
    from embedx.vectors.neighbours import NeighbourSearch
    from embedx.vectors.uncertainty import Uncertainty

    words = request.words
    if fasttext_queries.is_query(request.model, words):
        fasttext_queries.answer_words(request)
        return
    loaded = load(model_folder_of(request.model)).of(request.vectors)
    search = NeighbourSearch(
        loaded,
        request.top_k,
        request.restrict_vocab,
        request.exclude.split(","),
        request.min_count,
        Uncertainty(loaded) if request.intervals else None,
    )
    name_of_word = names_of(loaded, request.names)
    if words and words != [STANDARD_INPUT]:
        with command_progress() as progress:
            queries.show_neighbours(words, search, request.as_json, name_of_word, progress)
    else:
        asked = queries.asked(words or [], loaded)
        queries.answer_words(asked, search, request.as_json, name_of_word)


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
    from embedx.cli.queries import write_vectors
    from embedx.vectors.model import load

    progress = command_progress(quiet, verbose)
    n_unknown = write_vectors(load(model).of(vectors), lines or ["-"], output, overwrite)
    if n_unknown > 0:
        progress.warn(f"lines without a known word: {n_unknown:,}")


Word = Annotated[str | None, typer.Argument()]


def analogy(
    model: str,
    a: str,
    b: Word = None,
    c: Word = None,
    top_k: TopK = 10,
    restrict_vocab: Annotated[int | None, typer.Option(min=1)] = None,
    as_json: bool = False,
) -> None:
    """A is to B as C is to what? List the answers: word, cosine.

    model           model folder, or a vector file of another program, such as word2vec's
    a               - reads three words from each line of standard input, and answers each as it
                    comes
    restrict_vocab  look only at the N most frequent words
    """
    from embedx.cli import queries
    from embedx.vectors.model import load

    loaded = load(model)
    if a == STANDARD_INPUT:
        queries.answer_analogies(loaded, top_k, restrict_vocab, as_json)
        return
    if b is None or c is None:
        problem = f"fewer than three {loaded.noun}s"
        raise DataError("the question", None, problem, "give A, B and C")
    answers = loaded.analogy(a, b, c, top_k, restrict_vocab=restrict_vocab)
    queries.show_answers(answers, loaded.noun, as_json)


def recommend(
    model: str,
    items: Annotated[list[str] | None, typer.Argument()] = None,
    histories: str | None = None,
    names: str | None = None,
    top_k: TopK = 10,
    as_json: bool = False,
) -> None:
    """List the items that most likely follow those of a session or an order: item, score.

    Items are ranked as by `embedx eval --next-item`; those that are given are left out. Histories
    of a file or of standard input are answered as they come: history, item, score.

    model      folder written by `embedx train` from sessions, one per line
    items      the items so far, the latest last; - or none: a history in each line of standard
               input
    histories  file with a history per line, its items separated by tabs, or by blanks in a file
               without tabs
    names      file of two columns, an item and its name, which is shown beside it
    """
    from embedx.cli import queries
    from embedx.text.session_items import sessions_of_file
    from embedx.vectors.model import load
    from embedx.vectors.names import names_of

    if histories is not None and items:
        problem = "does not apply where items are given"
        raise InapplicableError("histories", histories, problem)
    loaded = load(model)
    name_of_item = names_of(loaded, names)
    with command_progress() as progress:
        if histories is not None:
            sessions = sessions_of_file(histories, progress)
            queries.recommend_to_each(loaded, sessions, top_k, as_json, name_of_item, progress)
        elif not items or items == [STANDARD_INPUT]:
            lines = map(queries.divided, queries.input_lines())
            queries.recommend_to_each(loaded, lines, top_k, as_json, name_of_item, progress)
        else:
            queries.recommend(loaded, items, top_k, as_json, name_of_item, progress)


def export(
    model: str,
    out: Path,
    overwrite: bool = False,
    trust_pickle: bool = False,
    quiet: bool = False,
    verbose: bool = False,
    options: dict[str, Any] | None = None,
) -> None:
    """Write word vectors in the format of another program, or convert a vector file.

    model  model folder, or a vector file of another program, such as word2vec's
    out    file or folder to write; .gz, .bz2, .xz compress text and .bin
    """
    from embedx.vectors.export import export as write
    from embedx.vectors.model import load

    progress = command_progress(quiet, verbose)
    written = write(
        load(model, progress, trust_pickle),
        out=out,
        overwrite=overwrite,
        progress=progress,
        **({"format": None} | (options or {})),
    )
    print(as_cell(str(written)))
