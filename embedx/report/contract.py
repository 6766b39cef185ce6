"""What the pages of a task have to say, and what they are asked for."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from embedx.evaluation.word_sets import WordTests
from embedx.report.settings import ReportSettings
from embedx.runtime.progress import Progress

Model = TypeVar("Model")


class PageRequest(NamedTuple):
    """What a page is asked for.

    folders      of one model, or of two of the same task
    names        what the page calls the models
    word_tests   test sets of word vectors
    test         test data of classifiers, and `test_labels` beside them
    """

    folders: Sequence[Path]
    settings: ReportSettings
    word_tests: WordTests
    test: str | None
    test_labels: str | None
    progress: Progress
    names: Sequence[str] = ()


@dataclass(frozen=True)
class TaskPages(Generic[Model]):
    """The pages about models of one task.

    title       what the title of a page calls such a model
    kind        what messages call it
    options     names of the options of `report` that are for models of this task only
    load        the model in a folder
    template    of the page of one model
    single      values of that template, from the model
    pair        values of pair.html, from two models
    """

    title: str
    kind: str
    options: Sequence[str]
    load: Callable[[Path], Model]
    template: str
    single: Callable[[Model, PageRequest], Mapping[str, Any]]
    pair: Callable[[Sequence[Model], PageRequest], Mapping[str, Any]]
