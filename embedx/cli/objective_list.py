"""`embedx objectives`: the list of objectives, and the settings of one."""

import dataclasses
import json
from typing import Annotated, Any

import typer

from embedx.cli.help import help_formatter
from embedx.cli.setting_options import SETTING_OPTIONS, defaults_of_objective
from embedx.settings import Record, described, is_given_by_set, settings_of
from embedx.spelling import as_typed, option_name

Objective = Annotated[str | None, typer.Argument()]

# What is known of an objective, a line each.
LINES = (
    ("rows", "samplers", "needs"),
    ("log-likelihood", "WordSim-353", "words/s"),
)
TASKS = ("train", "classify")


def list_objectives(objective: Objective = None, as_json: bool = False) -> None:
    """List the objectives, or one with its settings.

    For each: loss, paper, when to choose it, candidates per example (m negatives, K classes),
    scores.

    objective  only this one, with its settings
    """
    from embedx import objectives

    rows: list[Record] = [
        dict(zip(objectives.TABLE_HEAD, row, strict=True)) for row in objectives.table()
    ]
    if objective is not None:
        kind = objectives.find(objective)
        for task in TASKS:
            # Imports the settings of the command, by which options are spelled.
            SETTING_OPTIONS[task]()
        (row,) = [row for row in rows if row["objective"] == kind.name]
        row["settings"] = _settings(kind)
        row["defaults"] = _other_defaults(kind)
        rows = [row]
    if as_json:
        # Defaults that depend on the features are dataclasses.
        print(json.dumps(rows, default=dataclasses.asdict))
        return
    formatter = help_formatter()
    for row in rows:
        _write_objective(formatter, row)
        if objective is not None:
            _write_settings(formatter, row)
    if objective is not None:
        formatter.write_paragraph()
    formatter.write_text(objectives.measured_how())
    print(formatter.getvalue().rstrip())


def _settings(objective: Any) -> list[Record]:
    """The settings that an objective declares: option, meaning, values, and the default of each
    command that takes it.
    """
    # imported here, because it imports the kernels, which the help of other commands does not need
    from embedx.parameters import fields_of_objective

    records: dict[str, Record] = {}
    for task in TASKS:
        task_defaults = defaults_of_objective(objective, task)
        for field in fields_of_objective(objective, is_of_words=task == "train"):
            record = {
                "option": _option(field.name),
                "meaning": field.metadata["meaning"],
                "values": described(field),
                "defaults": {},
            }
            defaults = records.setdefault(field.name, record)["defaults"]
            defaults[task] = task_defaults.get(field.name, field.default)
    return list(records.values())


def _other_defaults(objective: Any) -> dict[str, Record]:
    """The defaults of an objective for settings that all objectives have: the default of each
    command, by option.
    """
    declared = settings_of(objective.Settings)
    defaults: dict[str, Record] = {}
    for task in TASKS:
        for name, value in defaults_of_objective(objective, task).items():
            if name not in declared:
                defaults.setdefault(_option(name), {})[task] = value
    return defaults


def _option(name: str) -> str:
    """A setting as it is typed: `--negatives`, `--set local-decay=VALUE`."""
    return f"{option_name(name)}=VALUE" if is_given_by_set(name) else option_name(name)


# ---- for people


def _write_objective(formatter: Any, row: Record) -> None:
    """What is known of an objective, wrapped to the terminal."""
    facts = [
        "; ".join(f"{column}: {row[column]}" for column in columns if column in row)
        for columns in LINES
    ]
    lines = [row["loss"], row["paper"], row["when"], *facts]
    name = f"{row['objective']:16}"
    formatter.write_dl([(name, lines[0]), *(("", line) for line in lines[1:])])


def _write_settings(formatter: Any, row: Record) -> None:
    """The settings of an objective, and its defaults for those that all objectives have."""
    if row["settings"]:
        with formatter.section(f"Settings of {row['objective']}"):
            formatter.write_dl(
                [(setting["option"], _explained(setting)) for setting in row["settings"]]
            )
    if row["defaults"]:
        with formatter.section(f"Other defaults with {row['objective']}"):
            formatter.write_dl(
                [(option, _by_command(defaults)) for option, defaults in row["defaults"].items()]
            )


def _explained(setting: Record) -> str:
    """Meaning, values and defaults of a setting."""
    text = f"{setting['meaning']} ({setting['values']})"
    defaults = setting["defaults"]
    values = {as_typed(value) for value in defaults.values()}
    notes = []
    if len(defaults) < len(TASKS):
        notes.append(f"only embedx {', '.join(defaults)}")
    if len(values) > 1:
        train, classify = (as_typed(defaults[task]) for task in TASKS)
        notes.append(f"default: {train}; {classify} for classify")
    elif values != {""}:
        notes.append(f"default: {values.pop()}")
    return f"{text}  [{'; '.join(notes)}]" if notes else text


def _by_command(defaults: Record) -> str:
    """The default of each command."""
    return "; ".join(f"{task}: {as_typed(value)}" for task, value in defaults.items())
