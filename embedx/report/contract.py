"""What the pages of a task have to say, and what they are asked for."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

from embedx.evaluation.word_sets import WordTests
from embedx.report.settings import ReportSettings
from embedx.runtime.atomic import followed
from embedx.runtime.progress import Progress
from embedx.storage.replacement import current_path

Model = TypeVar("Model")


@dataclass(frozen=True)
class PageRequest:
    """What a page is asked for.

    models       folders of one model, or of two of the same task, as they were given
    word_tests   test sets of word vectors
    test         test data of classifiers, and `test_labels` beside them
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
        return [current_path(Path(model)) for model in self.models]

    @property
    def names(self) -> list[str]:
        """What the page calls the models."""
        return different_names(self.models)

    @property
    def inputs(self) -> list[str | Path]:
        """What the page is made of."""
        test_sets = (self.test, self.test_labels, self.word_tests.analogies)
        files = [file for file in test_sets if file is not None]
        return [*self.models, *self.word_tests.pairs, *files]


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


def name_of(model: str | Path) -> str:
    """What a model is called on its page: the name of its folder without .embedx."""
    return followed(Path(model)).name.removesuffix(".embedx") or "model"


def different_names(models: Sequence[str | Path]) -> list[str]:
    """What a page calls its models: their names, as they were given where these are the same, and A
    and B where these are, too.
    """
    for names in ([*map(name_of, models)], [*map(str, models)]):
        if len(set(names)) == len(names):
            return names
    return ["A", "B"]
