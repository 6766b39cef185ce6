"""What objectives are compared on: the base of text and labelled data."""

import dataclasses
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from embedx import objectives
from embedx.comparison.settings import SETTINGS_OF_ALL_RUNS, VALIDATION_SETTINGS, CompareSettings
from embedx.errors import InapplicableError, SettingError, Text, near
from embedx.evaluation.statistics import Score
from embedx.runtime.progress import Progress
from embedx.settings import Record, Settings, read_value
from embedx.spelling import as_typed
from embedx.tasks.requests import RunRequest


def variants_of(text: str) -> list[str]:
    """The objectives that `--objectives ns,ova:loss=squared-hinge,weights=tree` names.

    Settings follow their objective.
    """
    names: list[str] = []
    for part in filter(None, map(str.strip, text.split(","))):
        is_setting = "=" in part and ":" not in part
        if names and is_setting:
            names[-1] += f",{part}"
        else:
            names.append(part)
    return names


class Data(ABC):
    """Files, the options of all runs on them, and how a model is scored.

    names             training data of each run
    files             further files: train_labels, test, test_labels, pairs, analogies, next_item,
                      cache_dir
    unit              "words", "items", "nodes" or "examples"
    pace              name of the fact of a run with the number of units per second
    applicable        names of the options that apply
    variant_settings  settings of variants of objectives, in addition to the objective's own
    n_outputs         labels or words, known after `prepare`
    measures          in the order of tables; the first decides the ranking if all runs have it
    """

    command: ClassVar[str]
    pace: ClassVar[str]
    applicable: ClassVar[tuple[str, ...]]
    variant_settings: ClassVar[type[Settings]]
    why_inapplicable: ClassVar[Text]
    n_outputs: int
    measures: Sequence[str]
    curve_of: str
    unit: str

    def __init__(
        self,
        names: Sequence[str],
        options: Mapping[str, Any],
        settings: CompareSettings,
        **files: Any,
    ) -> None:
        inapplicable = sorted(options.keys() - set(self.applicable))
        if inapplicable:
            raise InapplicableError(inapplicable[0], None, self.why_inapplicable)
        self.names = list(names)
        self.options = dict(options)
        self.settings = settings
        self.files = files
        # Options of runs derived from the data and the settings of the comparison.
        self.run_options: dict[str, Any] = {}
        # Epochs of each run if no limit is set; None: the default time.
        self.usual_epochs: int | None = None
        # Objectives that train to convergence, for their own number of epochs.
        self.converging: set[str] = set()

    @property
    def name(self) -> str:
        return " ".join(os.path.basename(name.rstrip("/")) or name for name in self.names)

    def variant(self, name: str) -> tuple[str, dict[str, Any]]:
        """The objective and the settings of `ova:loss=squared-hinge,weights=tree`.

        Raises `EmbedxError` for an unknown objective or setting, or an invalid value.
        """
        objective, _, rest = name.partition(":")
        fields = self._fields_of_variants(objective)
        options = {}
        for assignment in filter(None, rest.split(",")):
            setting, _, text = assignment.partition("=")
            field = fields.get(setting.replace("-", "_"))
            if field is None:
                problem = f"{setting} cannot be set here"
                remedy = near(setting, fields, "`embedx compare --help-all` shows what can")
                raise SettingError("objectives", name, problem, remedy)
            options[field.name] = read_value(field, text)
        return objective, options

    def _fields_of_variants(self, objective: str) -> dict[str, dataclasses.Field[Any]]:
        """The settings of variants of an objective, by name."""
        groups = [self.variant_settings, objectives.find(objective).Settings]
        fields = {field.name: field for group in groups for field in dataclasses.fields(group)}
        return {name: field for name, field in fields.items() if name not in SETTINGS_OF_ALL_RUNS}

    def request(self, variant: str) -> RunRequest:
        """A run with the objective and the settings of a variant, without seed, limit and
        output.
        """
        objective, settings_of_variant = self.variant(variant)
        left_out: Sequence[str] = ()
        if variant in self.converging:
            left_out = VALIDATION_SETTINGS
        settings = {
            name: value
            for name, value in (self.options | self.run_options | settings_of_variant).items()
            if value is not None and name not in left_out
        }
        return self.request_of(objective, settings)

    @abstractmethod
    def request_of(self, objective: str, options: Record) -> RunRequest:
        """A run on the data with an objective and the settings given by `options`."""

    def identity(self) -> dict[str, Any]:
        """Everything that determines the results except time, threads and machine."""
        return {
            "data": self.fingerprints(),
            "options": {name: as_typed(value) for name, value in self.options.items()},
        }

    @abstractmethod
    def fingerprints(self) -> list[Any]:
        """The current fingerprints of the files."""

    @abstractmethod
    def check(self, objectives: Sequence[str]) -> None:
        """Raise `EmbedxError` if an objective does not take the options."""

    @abstractmethod
    def prepare(self, progress: Progress) -> dict[str, Any]:
        """Read the data; return facts about them. Raises `EmbedxError` if they are not valid."""

    @abstractmethod
    def validation_score(self, model: Path, facts: Mapping[str, Any]) -> float | None:
        """The score that --tune compares, the higher the better."""

    @abstractmethod
    def scores(self, model: Path) -> tuple[dict[str, Score], dict[str, Any]]:
        """The scores of a saved model, and further facts for the record."""

    @abstractmethod
    def curve(self, facts: Mapping[str, Any]) -> list[list[float]]:
        """[epochs, seconds, score] during training, from what a run printed."""
