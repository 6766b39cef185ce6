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
    """`embedx compare`."""

    data: list[str]
    objectives: Annotated[str, typer.Option()]
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
    """`embedx predict`."""

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
    """`embedx eval`."""

    models: list[str]
    against: list[str] | None = None
    pairs: list[Path] | None = None
    analogies: Path | None = None
    protocol: str = "embedx"
    method: str = "3cosadd"
    candidates: Annotated[int | None, typer.Option(min=1)] = None
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
    quiet: bool = False
    verbose: bool = False
    as_json: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReportRequest(Request):
    """`embedx report`."""

    models: list[str]
    output: Path | None = None
    overwrite: bool = False
    test: str | None = None
    test_labels: str | None = None
    pairs: list[Path] | None = None
    analogies: Path | None = None


# ---- commands of requests


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
        return [parameter for parameter in parameters if parameter.name != "typed"]
    fields = {field.name: field for field in dataclasses.fields(kind) if field.name != "typed"}
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
