"""The request of a page, and the pages that a task has."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

from embedx.errors import Text, spelled
from embedx.evaluation.word_sets import WordTests
from embedx.report.settings import ReportSettings
from embedx.runtime.atomic import followed
from embedx.runtime.progress import Progress
from embedx.storage.replacement import current_path

Model = TypeVar("Model")


@dataclass(frozen=True)
class PageRequest:
    """The request of a page.

    models       folders of one model, or of two of the same task, as the user named them
    word_tests   test sets of word vectors
    test         test data of classifiers; `test_labels` are the labels if they are in another file
    """

    models: Sequence[str | Path]
    settings: ReportSettings
    word_tests: WordTests
    test: str | None
    test_labels: str | None
    progress: Progress

    @cached_property
    def folders(self) -> list[Path]:
        """The folders of the models."""
        return [current_path(model) for model in self.models]

    def spelled(self, text: Text) -> str:
        """The text with its settings as the user writes them."""
        return spelled(text, self.progress.spelling)

    @property
    def names(self) -> list[str]:
        """The names of the models on the page."""
        return different_names(self.models)

    @property
    def inputs(self) -> list[str | Path]:
        """The files and folders that the page is made from."""
        test_sets = (self.test, self.test_labels, self.word_tests.analogies)
        files = [file for file in test_sets if file is not None]
        return [*self.models, *self.word_tests.pairs, *files]


@dataclass(frozen=True)
class TaskPages(Generic[Model]):
    """The pages about models of one task.

    title       word for such a model in the title of its page
    kind        word for it in messages
    options     names of the options of `report` that are for models of this task only
    load        function from a folder to its model
    template    name of the template of the page of one model
    single      function from a model to the values of that template
    pair        function from two models to the values of pair.html
    """

    title: str
    kind: str
    options: Sequence[str]
    load: Callable[[Path], Model]
    template: str
    single: Callable[[Model, PageRequest], Mapping[str, Any]]
    pair: Callable[[Sequence[Model], PageRequest], Mapping[str, Any]]


def name_of(model: str | Path) -> str:
    """The name of a model on its page: that of its folder without .embedx."""
    return followed(Path(model)).name.removesuffix(".embedx") or "model"


def different_names(models: Sequence[str | Path]) -> list[str]:
    """Different names of models: those of their folders, else the paths as the user named them,
    else A and B.
    """
    for names in ([*map(name_of, models)], [*map(str, models)]):
        if len(set(names)) == len(names):
            return names
    return ["A", "B"]
