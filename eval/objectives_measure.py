"""One run of `embedx train` for `objectives.py`, from the command to its scores: a row of a table, as a record keeps it."""

import dataclasses
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from embedx.model import WordVectors, load_folder
from embedx.progress import Silent

from embedx import objectives, skipgram
from embedx.evaluation import heldout, words
from embedx.settings import TextSettings, VocabularySettings, option_name
from embedx.text.encode import encode
from embedx.text.heldout import hold_out
from embedx.text.vocabulary import select

DIVERGED = 3  # the exit code
LOOK = 0.05  # seconds between two looks at the memory of a process


@dataclasses.dataclass(frozen=True)
class Place:
    """What all runs share: where the texts are, the token cache, and what vectors are asked."""

    folder: Path  # temporary
    tests: list[words.Test]

    def text(self, name: str) -> Path:
        return self.folder / name


def defaults(objective: str) -> dict[str, Any]:
    """What a user gets who types --objective alone, and the tokenizer's settings: a run with others is another run."""
    settings, found = skipgram.chosen(objectives.find(objective), {})
    return settings.record() | found.settings.record()


def run(objective: str, options: dict[str, Any], corpus: str, place: Place) -> dict[str, Any]:
    """Train one model on a text of the place, by the command line, and score it.

    Ends the program where training fails; one that diverges is a result.
    """
    model, log = place.folder / "model", place.folder / "log"
    log.unlink(missing_ok=True)
    typed = [word for name, value in options.items() for word in (option_name(name), str(value))]
    places = ["--output", str(model), "--overwrite", "--cache-dir", str(place.folder / "tokens"), "--log-json", str(log)]
    command = [sys.executable, "-m", "embedx", "train", str(place.text(corpus)), "--objective", objective, *typed, *places]
    begun = time.perf_counter()
    code, told, complaints, peak = watched([*command, "--json"], log)
    whole = time.perf_counter() - begun
    if code == DIVERGED:
        return {"diverged": complaints.strip().splitlines()[-1].removeprefix("embedx: ")}
    if code:
        raise SystemExit(f"{complaints[-3000:]}\n`embedx train --objective {objective}` failed; --resume goes on from here")
    facts = json.loads(told.splitlines()[-1])
    result = {
        "settings": facts["settings"], "loss": facts["final_loss"], "epochs": facts["epochs"], "seconds": facts["seconds"],
        "words_per_second": facts["words_per_second"], "words": facts["words"], "whole": round(whole, 1), "peak_rss": peak,
    }  # fmt: skip
    if "heldout" in facts:
        vectors = load_folder(model)
        result["heldout"] = facts["heldout"] | by_group(likelihood(vectors, place, corpus))
        result["scores"] = {each.test.name: each.score for each in words.score(vectors, place.tests)}
    return result


def watched(command: list[str], log: Path) -> tuple[int, str, str, int]:
    """Exit code, output, complaints, and the most memory in bytes that was resident until `log` was last written to.

    That is the end of training: what scoring the held-out text takes is the same for all objectives, and not theirs.
    """
    outputs = [log.with_name(name) for name in ("output", "complaints")]
    seen: list[tuple[float, int]] = []  # time.time(), bytes
    with outputs[0].open("wb") as out, outputs[1].open("wb") as err:
        process = subprocess.Popen(command, stdout=out, stderr=err)
        try:
            while process.poll() is None:
                seen.append((time.time(), peak_rss(process.pid)))
                time.sleep(LOOK)
        finally:
            process.kill()  # where we were interrupted
            process.wait()
    trained = log.stat().st_mtime if log.exists() else time.time()
    peak = max((size for when, size in seen if when <= trained), default=0)
    return process.returncode, *(file.read_text("utf-8", errors="replace") for file in outputs), peak


def peak_rss(pid: int) -> int:
    """The most memory a process ever had resident, in bytes; 0 where there is no /proc or the process is gone.

    The operating system's own account, getrusage, begins with the memory of the parent.
    """
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), 0)


def likelihood(vectors: WordVectors, place: Place, corpus: str) -> heldout.Likelihood:
    """What `embedx train` told as `heldout`, with the log-probability of each pair: the same text held out, the same pairs."""
    options = vectors.settings
    text, vocabulary = TextSettings.from_options(options), VocabularySettings.from_options(options)
    with encode([str(place.text(corpus))], text, Silent(), place.folder / "tokens") as encoded:
        held = hold_out(encoded.tokens, select(encoded, vocabulary)[1], options["heldout"])
    pairs, calibration = heldout.draw(held.words, held.groups, vectors)
    return heldout.evaluate(vectors, pairs, calibration)


def by_group(found: heldout.Likelihood) -> dict[str, list[Any]]:
    """The sums of the log-probabilities by group and the sizes of the groups: enough for any paired difference."""
    _, group = np.unique(found.groups, return_inverse=True)
    sums = np.bincount(group, found.values)
    return {"sums": [round(value, 6) for value in sums.tolist()], "sizes": np.bincount(group).tolist()}
