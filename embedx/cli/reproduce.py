"""`embedx reproduce`: a model trained again by its recorded command, and how the two differ."""

import filecmp
import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from embedx.cli import about, tables
from embedx.cli.setting_options import SETTING_OPTIONS
from embedx.distributed.settings import ClusterSettings
from embedx.errors import DataError, SettingError
from embedx.settings import Record, settings_of
from embedx.spelling import option_name
from embedx.storage.description import read_description
from embedx.storage.folder import no_model_folder, task_of_model
from embedx.storage.folder_files import DESCRIPTION
from embedx.storage.replacement import current_path
from embedx.tasks.output import MODEL_OPTIONS
from embedx.tasks.requests import RUNS
from embedx.text.sources import STANDARD_INPUT

LOSS = "final_loss"
OUTPUT = "--output"


def reproduce(model: str, output: Path | None, as_json: bool, quiet: bool) -> None:
    """Train the model again into the folder `output`, and print how the two differ."""
    folder = current_path(model)
    if task_of_model(folder) is None:
        raise no_model_folder(model)
    facts = read_description(folder)["facts"]
    words = recorded_command(folder, facts)
    if output is None:
        output = folder.with_name(f"{folder.name}.again")
    if output.exists():
        raise SettingError("output", str(output), "exists already", "name a new folder")

    words = [*words, OUTPUT, str(output)]
    if quiet:
        words.append("--quiet")
    check_data(folder, words, facts.get("data_hash"))
    done = subprocess.run(program(words), stdout=subprocess.DEVNULL)
    if done.returncode != 0:
        raise SystemExit(done.returncode)
    tables.show_facts(compared(folder, output), as_json)


def recorded_command(folder: Path, facts: Record) -> list[str]:
    """The words of the command that trained a model. Raises DataError where it has none that can
    be repeated.
    """
    command = facts.get("command")
    if not command:
        problem = "no command is recorded, as of models that Python trained"
        raise DataError(folder, None, problem, "run the script that trained it")
    words = shlex.split(command)
    if words[:1] != ["embedx"] or len(words) < 3 or words[1] not in RUNS:
        raise DataError(folder / DESCRIPTION, None, "the recorded command trains no model")
    if STANDARD_INPUT in words[2:]:
        problem = "it was trained on standard input, which is not kept"
        raise DataError(folder, None, problem, f"repeat {command}")
    check_options(folder, words)
    if OUTPUT in words:
        place = words.index(OUTPUT)
        del words[place : place + 2]
    return words


def check_options(folder: Path, words: list[str]) -> None:
    """Raise DataError for an option that no recorded command has, such as one that overwrites."""
    names = set(SETTING_OPTIONS[words[1]]()) | set(MODEL_OPTIONS)
    names -= set(settings_of(ClusterSettings))
    flags = {option_name(name).split()[0] for name in names}
    flags |= {f"--no-{name.replace('_', '-')}" for name in names}
    for word in words[2:]:
        if word.startswith("-") and word not in flags and not is_number(word):
            problem = f"the recorded command has {word}"
            raise DataError(folder / DESCRIPTION, None, problem, "run it yourself")


def is_number(word: str) -> bool:
    """Whether the word is a number, which may begin with a minus."""
    try:
        float(word)
    except ValueError:
        return False
    return True


def program(words: list[str]) -> list[str]:
    """The command with this Python and this version of embedx."""
    return [sys.executable, "-P", "-m", "embedx", *words[1:]]


def check_data(folder: Path, words: list[str], data_hash: str | None) -> None:
    """Raise DataError if the data are missing, or are not those that the model was trained on."""
    planned = subprocess.run(
        [*program(words), "--dry-run", "--json"], capture_output=True, text=True
    )
    if planned.returncode != 0:
        lines = planned.stderr.strip().splitlines() or ["no message"]
        reason = lines[-1].removeprefix("embedx: ")
        remedy = "run embedx reproduce in the folder where the model was trained"
        raise DataError(folder, None, f"its command fails: {reason}", remedy)
    data_hash_now = json.loads(planned.stdout)["data_hash"]
    if data_hash is not None and data_hash != data_hash_now:
        problem = f"the data changed: their hash is {data_hash_now}, was {data_hash}"
        raise DataError(folder, None, problem, "restore the data")


def compared(folder: Path, other: Path) -> Record:
    """Whether the bytes of two models are equal, and how far scores differ where they are not."""
    descriptions = [read_description(path) for path in (folder, other)]
    names = {file.name for path in (folder, other) for file in path.iterdir() if file.is_file()}
    names.discard(DESCRIPTION)
    _, differing, missing = filecmp.cmpfiles(folder, other, sorted(names), shallow=False)
    unequal = [*differing, *missing]
    record: Record = {"model": str(other), "equal": not unequal}
    if not unequal:
        return record
    record["differing files"] = unequal
    old_scores, new_scores = (scores_of(description["facts"]) for description in descriptions)
    for name, old_score in old_scores.items():
        if name in new_scores:
            record[f"{name} was"] = old_score
            record[f"{name} is"] = new_scores[name]
    record["why"] = why_unequal(descriptions)
    return record


def scores_of(facts: Record) -> Record:
    """The loss and the recorded scores of a model, by name."""
    scores = about.recorded_scores(facts)
    if facts.get(LOSS) is not None:
        scores[LOSS] = facts[LOSS]
    return scores


def why_unequal(descriptions: list[dict[str, Any]]) -> str:
    """The likely reason for two models of one command to differ."""
    old, new = descriptions
    settings = old["settings"]
    if (settings.get("threads") or 1) > 1 and not settings.get("deterministic"):
        return "several threads update shared tables; with --deterministic they are equal"
    if old["facts"].get("versions") != new["facts"].get("versions"):
        return "other versions of Python or packages"
    return "another version of embedx, another processor, or a limit of time"
