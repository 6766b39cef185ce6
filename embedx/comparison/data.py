"""What objectives are compared on: the base of text and labelled data."""

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from embedx.comparison.settings import CompareSettings
from embedx.errors import EmbedxError
from embedx.evaluation.statistics import Score
from embedx.settings import as_arguments, as_typed, option_name
from embedx.training.progress import Progress


class Data(ABC):
    """Files, the options of all runs on them, and how a model is scored.

    names  what the command `command` of each run takes
    files  what is named beside them: train_labels, test, test_labels, pairs, analogies, cache_dir
    """

    command: ClassVar[str]
    unit: ClassVar[str]  # "words" or "examples"
    taken: ClassVar[tuple[str, ...]]  # names of options
    otherwise: ClassVar[str]  # what is said of other options
    measures: Sequence[str]  # in the order of tables; the first is ranked by if all runs have it
    curve_of: str

    def __init__(self, names: Sequence[str], options: Mapping[str, Any], settings: CompareSettings, **files: Any) -> None:
        if others := sorted(options.keys() - set(self.taken)):
            raise EmbedxError(f"{option_name(others[0])} {self.otherwise}")
        self.names, self.options, self.settings, self.files = list(names), dict(options), settings, files
        self.of_runs: dict[str, Any] = {}  # further options

    @property
    def name(self) -> str:
        return " ".join(os.path.basename(name.rstrip("/")) or name for name in self.names)

    def arguments(self) -> list[str]:
        """What a run is started with, beside objective, seed, time and places."""
        given = {name: value for name, value in (self.options | self.of_runs).items() if value is not None}
        return [*self.names, *as_arguments(given)]

    def identity(self) -> dict[str, Any]:
        """What decides the results, beside time, threads and machine."""
        return {"data": self.fingerprints(), "options": {name: as_typed(value) for name, value in self.options.items()}}

    @abstractmethod
    def fingerprints(self) -> list[Any]:
        """What the files are now."""

    @abstractmethod
    def check(self, objectives: Sequence[str]) -> None:
        """Raise `EmbedxError` if an objective does not take the options."""

    @abstractmethod
    def prepare(self, progress: Progress) -> dict[str, Any]:
        """Read the data; what is to be known of them. Raises `EmbedxError` for what is wrong with them."""

    @abstractmethod
    def validation_score(self, model: Path, facts: Mapping[str, Any]) -> float | None:
        """The score that --tune compares, the higher the better."""

    @abstractmethod
    def scores(self, model: Path) -> tuple[dict[str, Score], dict[str, Any]]:
        """The scores of a saved model, and facts that stand beside them."""

    @abstractmethod
    def curve(self, facts: Mapping[str, Any]) -> list[list[float]]:
        """[epochs, seconds, score] during training, from what a run printed."""
