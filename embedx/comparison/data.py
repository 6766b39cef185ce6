"""What objectives are compared on: the base of text and labelled data."""

import dataclasses
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from embedx import objectives
from embedx.comparison.settings import OF_ALL_RUNS, OF_VALIDATION, CompareSettings
from embedx.errors import EmbedxError, near
from embedx.evaluation.statistics import Score
from embedx.settings import Settings, as_arguments, as_typed, option_name, read_value
from embedx.training.progress import Progress


def listed(text: str) -> list[str]:
    """What `--objectives ns,ova:loss=squared-hinge,weights=tree` names; settings follow their
    objective.
    """
    found: list[str] = []
    for each in filter(None, map(str.strip, text.split(","))):
        if found and "=" in each and ":" not in each:
            found[-1] += f",{each}"
        else:
            found.append(each)
    return found


class Data(ABC):
    """Files, the options of all runs on them, and how a model is scored.

    names  what the command `command` of each run takes
    files  what is named beside them: train_labels, test, test_labels, pairs, analogies, next_item,
           cache_dir
    """

    command: ClassVar[str]
    unit: ClassVar[str]  # "words" or "examples"
    taken: ClassVar[tuple[str, ...]]  # names of options
    # settings that an objective may be tried with, beside its own
    of_variants: ClassVar[type[Settings]]
    otherwise: ClassVar[str]  # what is said of other options
    measures: Sequence[str]  # in the order of tables; the first is ranked by if all runs have it
    curve_of: str

    def __init__(
        self,
        names: Sequence[str],
        options: Mapping[str, Any],
        settings: CompareSettings,
        **files: Any,
    ) -> None:
        if others := sorted(options.keys() - set(self.taken)):
            raise EmbedxError(f"{option_name(others[0])} {self.otherwise}")
        self.names, self.options, self.settings, self.files = (
            list(names),
            dict(options),
            settings,
            files,
        )
        self.of_runs: dict[str, Any] = {}  # further options
        # of the objectives compared, those that train by their own epochs, to the end
        self.converging: set[str] = set()

    @property
    def name(self) -> str:
        return " ".join(os.path.basename(name.rstrip("/")) or name for name in self.names)

    def variant(self, name: str) -> tuple[str, dict[str, Any]]:
        """The objective and the settings of `ova:loss=squared-hinge,weights=tree`. Raises
        `EmbedxError` for what is none.
        """
        objective, _, rest = name.partition(":")
        of_objective = objectives.find(objective).Settings
        known = [
            each for group in (self.of_variants, of_objective) for each in dataclasses.fields(group)
        ]
        fields, options = {each.name: each for each in known if each.name not in OF_ALL_RUNS}, {}
        for each in filter(None, rest.split(",")):
            setting, _, text = each.partition("=")
            if (field := fields.get(setting.replace("-", "_"))) is None:
                raise EmbedxError(
                    f"--objectives {name}: {setting} cannot be set here;"
                    f" {near(setting, fields, 'see --help-all')}"
                )
            options[field.name] = read_value(field, text)
        return objective, options

    def arguments(self, variant: str) -> list[str]:
        """What a run is started with, beside seed, time and places."""
        objective, own = self.variant(variant)
        left_out = OF_VALIDATION if variant in self.converging else ()
        given = {
            name: value
            for name, value in (self.options | self.of_runs | own).items()
            if value is not None
        }
        given = {name: value for name, value in given.items() if name not in left_out}
        return [*self.names, *as_arguments(given), "--objective", objective]

    def identity(self) -> dict[str, Any]:
        """What decides the results, beside time, threads and machine."""
        return {
            "data": self.fingerprints(),
            "options": {name: as_typed(value) for name, value in self.options.items()},
        }

    @abstractmethod
    def fingerprints(self) -> list[Any]:
        """What the files are now."""

    @abstractmethod
    def check(self, objectives: Sequence[str]) -> None:
        """Raise `EmbedxError` if an objective does not take the options."""

    @abstractmethod
    def prepare(self, progress: Progress) -> dict[str, Any]:
        """Read the data; what is to be known of them. Raises `EmbedxError` for what is wrong with
        them.
        """

    @abstractmethod
    def validation_score(self, model: Path, facts: Mapping[str, Any]) -> float | None:
        """The score that --tune compares, the higher the better."""

    @abstractmethod
    def scores(self, model: Path) -> tuple[dict[str, Score], dict[str, Any]]:
        """The scores of a saved model, and facts that stand beside them."""

    @abstractmethod
    def curve(self, facts: Mapping[str, Any]) -> list[list[float]]:
        """[epochs, seconds, score] during training, from what a run printed."""
