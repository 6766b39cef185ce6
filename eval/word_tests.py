"""The tests that word vectors are scored on, and one number for all sets of word pairs together."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from embedx.evaluation import statistics, word_sets, words
from eval import datasets
from eval.experiment import Run, say, stop
from eval.records import Record, Result

# files of the data set `word-pairs`
TUNED_ON = {"MTurk-287": "EN-MTurk-287.txt", "RG-65": "EN-RG-65.txt"}
# with WordSim-353 and SimLex-999; MC-30 is all in RG-65
POOLED = TUNED_ON | {"YP-130": "EN-YP-130.txt"}
# of the word pairs, on record: the standard error of a difference is then within 5 %
RESAMPLES = 200


def pair_files(data: Path | str | None) -> dict[str, Path]:
    """The sets that are pooled beside embedx's default ones, as far as they are here.

    data  the folder of --data
    """
    recipe = datasets.recipe_of(datasets.WORD_PAIRS, Path(data) if data else None)
    files = {Path(file).name: Path(file) for file in recipe.files_here()}
    return {name: files[file] for name, file in POOLED.items() if file in files}


def check_pairs(run: Run) -> None:
    """End with a line that says how to get the sets of word pairs that are not here. A trial run
    pools those that are.
    """
    missing = POOLED.keys() - pair_files(run.data_folder).keys()
    if not missing:
        return
    how_to_get = datasets.recipe_of(datasets.WORD_PAIRS, run.data_folder).how_to_get()
    line = f"word pairs of {', '.join(sorted(missing))} are missing: {how_to_get}"
    if not run.quick:
        stop(line)
    say(f"{line}; pooled without them")


def tests(data: Path | str | None) -> list[Any]:
    """What is reported on, then what was tuned on and what is pooled besides."""
    return word_sets.default_tests() + [
        word_sets.read_pairs(file, name) for name, file in pair_files(data).items()
    ]


def pooled(set_scores: list[Any]) -> Result:
    """The pooled similarity, as it is and on resamples of the pairs that are the same for every
    model of these words; nothing where the words are not known.
    """
    pooled_score = words.pooled(set_scores)
    if pooled_score is None or math.isnan(pooled_score.score):
        return {}
    about = {
        "score": round(pooled_score.score, 5),
        "pairs": int(pooled_score.used.sum()),
        "sets": pooled_score.details["sets"],
    }
    return {
        "pooled": (
            about
            | {
                "resampled": [
                    round(value, 5)
                    for value in pooled_score.scored(resamples=RESAMPLES).parts.tolist()
                ]
            }
        )
    }


def scores(runs: Sequence[Record]) -> list[Any]:
    """The pooled similarities of runs, of those that have any."""
    return [
        score_of(record["result"]["pooled"]) for record in runs if record["result"].get("pooled")
    ]


def score_of(pooled: Result) -> Any:
    """A pooled similarity as it is on record."""
    return statistics.Score(pooled["score"], np.array(pooled["resampled"]), None, pooled["pairs"])


def similarity(a: Sequence[Record], b: Sequence[Record]) -> Any:
    """The difference of the mean pooled similarities of some runs and others. None where a run has
    none, or they know different pairs.
    """
    ours = scores(a)
    theirs = scores(b)
    if len(ours) < len(a) or len(theirs) < len(b):
        return None
    return statistics.difference(ours, theirs, statistics.between_seeds([ours, theirs]))
