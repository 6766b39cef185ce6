"""The options of commands, made from the fields of their requests as those of settings are made
from theirs.
"""

import dataclasses
import inspect
from collections.abc import Callable
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin, get_type_hints

import typer

from embedx.distributed.settings import MAX_WORKERS
from embedx.settings import MAX_THREADS
from embedx.tasks.requests import Request

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclasses.dataclass(frozen=True, kw_only=True)
class CompareRequest(Request):
    """`embedx compare`.

    data        text, named as for `embedx train`, but not -; with --test, labelled data, as for
                `embedx classify`
    objectives  the output layers, separated by commas, perhaps with settings: ns,hs or
                softmax,ova:loss=squared-hinge; by default ns,hs,ar,ove,implicit,ldgs, and softmax
                up to 1,000 labels or words
    next_item   sessions, one per line, by whose last items models are ranked and tuned
    resume      add the missing runs to the comparison in the folder
    """

    data: list[str]
    objectives: str | None = None
    train_labels: str | None = None
    test: str | None = None
    test_labels: str | None = None
    pairs: list[Path] | None = None
    analogies: Path | None = None
    next_item: str | None = None
    output: Path | None = None
    overwrite: bool = False
    cache_dir: Path | None = None
    resume: bool = False
    as_json: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class PredictRequest(Request):
    """`embedx predict`.

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
    abstain          `none of these` is an answer too, in JSON null: no label of the model is right
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

    model: str
    data: str
    k: Annotated[int | None, typer.Argument(min=-1)] = None
    least: Annotated[float, typer.Argument(min=0, max=1)] = 0.0
    top_k: Annotated[int | None, typer.Option(min=1)] = None
    threshold: Annotated[float | None, typer.Option(min=0, max=1)] = None
    coverage: Annotated[float | None, typer.Option(min=0, max=1)] = None
    abstain: bool = False
    text_column: str | None = None
    id_column: str | None = None
    header: str | None = None
    threads: Annotated[int | None, typer.Option(min=1, max=MAX_THREADS)] = None
    search: bool = False
    scored_fraction: Annotated[float, typer.Option(min=0, max=1)] = 0.05
    cluster: str | None = None
    workers: Annotated[int | None, typer.Option(min=1, max=MAX_WORKERS)] = None
    output: Path | None = None
    overwrite: bool = False
    as_json: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluateRequest(Request):
    """`embedx eval`.

    models          model folder, word2vec or .vec file, or gensim's with --trust-pickle; two are
                    compared, more are listed
    against         models of another configuration, or a pattern; MODELS then differ in their seed
                    only
    protocol        embedx, or gensim: analogies among the first 300,000 words, not 30,000
    method          analogies: 3cosadd or 3cosmul
    restrict_vocab  analogies: look only at the N most frequent words; by default that of the
                    protocol
    text            log-likelihood of a text that was not trained on, named like a corpus of `embedx
                    train`; similarity is then scored only with --pairs or --analogies
    oov             score words outside the vocabulary too, by their n-grams
    seed            random seed of resampling and of held-out pairs
    label_column    with --test: column with the label; by default that of the training data
    header          with --test: yes or no, whether the first row of a table is a heading; by
                    default as in the training data
    predictions     with --test: labels that another program suggests, a line for each row, scored
                    beside those of the model
    per_label       with --test: CSV file to write, with counts, threshold, precision, recall and F1
                    of each label
    overwrite       replace the file of --per-label
    links           graphs: edges that were not trained on; AUC and average precision
    non_links       graphs: pairs of nodes to tell --links from; by default as many random pairs
    node_labels     graphs: a node and its labels per line; F1 of logistic regression on the vectors
    next_item       sessions, one per line: hit rate, NDCG and MRR of the last item
    """

    models: list[str]
    against: list[str] | None = None
    pairs: list[Path] | None = None
    analogies: Path | None = None
    protocol: str = "embedx"
    method: str = "3cosadd"
    restrict_vocab: Annotated[int | None, typer.Option(min=1)] = None
    vectors: str = "input"
    text: str | None = None
    oov: bool = False
    seed: Annotated[int, typer.Option(min=0)] = 0
    test: str | None = None
    test_labels: str | None = None
    label_column: str | None = None
    header: str | None = None
    predictions: str | None = None
    per_label: Path | None = None
    overwrite: bool = False
    links: str | None = None
    non_links: str | None = None
    node_labels: str | None = None
    next_item: str | None = None
    trust_pickle: bool = False
    as_json: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReportRequest(Request):
    """`embedx report`.

    models  folders written by `embedx train` or `embedx classify`, one or two
    output  file to write; by default MODEL.report.html here
    """

    models: list[str]
    output: Path | None = None
    overwrite: bool = False
    test: str | None = None
    test_labels: str | None = None
    pairs: list[Path] | None = None
    analogies: Path | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class NearestRequest:
    """`embedx nn`.

    model           model folder, or a vector file of another program, such as word2vec's
    words           each is looked up by itself; - reads them from standard input, and without words
                    a terminal prompts for them. For a model called MODEL.bin, or a file of
                    fastText, no words or a number of neighbours means `fasttext nn`
    restrict_vocab  look only at the N most frequent words
    exclude         leave out these words
    min_count       leave out words that occur fewer than N times in the training text, whose
                    vectors are uncertain
    intervals       add the 95 % interval of each cosine, wide where words are rare
    names           file of two columns, an item and its name, which is shown beside it
    """

    model: str
    words: Annotated[list[str] | None, typer.Argument()] = None
    top_k: Annotated[int, typer.Option(min=1)] = 10
    vectors: str = "input"
    restrict_vocab: Annotated[int | None, typer.Option(min=1)] = None
    exclude: str = ""
    min_count: Annotated[int | None, typer.Option(min=1)] = None
    intervals: bool = False
    names: str | None = None
    as_json: bool = False


# ---- parameters of commands, from the fields of their requests


def request_of(command: Callable[..., None]) -> "type[DataclassInstance] | None":
    """The class of the request that a command takes; None if it takes its options one by one."""
    kind = get_type_hints(command).get("request")
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return kind
    return None


def parameters_of(command: Callable[..., None]) -> list[inspect.Parameter]:
    """What a command takes beside settings: the fields of its request, its own before those that
    it shares, or the parameters of its signature.
    """
    kind = request_of(command)
    if kind is None:
        parameters = inspect.signature(command).parameters.values()
        return [parameter for parameter in parameters if parameter.name != "options"]
    fields = {field.name: field for field in dataclasses.fields(kind) if field.name != "options"}
    names: dict[str, None] = {}
    for parent in kind.__mro__:
        names |= dict.fromkeys(inspect.get_annotations(parent))
    return [_parameter(fields[name]) for name in names if name in fields]


def is_required(field: "dataclasses.Field[Any]") -> bool:
    """Whether a request cannot be made without this field."""
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _parameter(field: "dataclasses.Field[Any]") -> inspect.Parameter:
    default = inspect.Parameter.empty if is_required(field) else field.default
    return inspect.Parameter(
        field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=field.type
    )


def fits(value: object, kind: Any) -> bool:
    """Whether a value from JSON is of the type of a field."""
    if get_origin(kind) is Annotated:
        return fits(value, get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return any(fits(value, part) for part in get_args(kind))
    if get_origin(kind) is list:
        return isinstance(value, list) and all(fits(item, get_args(kind)[0]) for item in value)
    if get_origin(kind) is dict:
        return isinstance(value, dict) and all(isinstance(name, str) for name in value)
    return type(value) is (str if kind is Path else kind)
