"""A run: an objective is trained in a separate process, and its model scored. Peak memory is then
that of the run alone, and a run that crashes or diverges does not end the others.
"""

import contextlib
import dataclasses
import json
import math
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embedx.comparison.data import Data
from embedx.comparison.settings import CompareSettings
from embedx.errors import DivergedError, EmbedxError, one_line, text_to_json
from embedx.kernels.compiled import COMPILING
from embedx.runtime.cores import usable_cores
from embedx.settings import Record
from embedx.tasks.requests import RunRequest

# Settings whose defaults may be others where a learning rate is given; trials of rates keep them.
CHOSEN_WITHOUT_RATE = ("optimizer", "block_size")
SECONDS_BETWEEN_MEASUREMENTS = 0.05
MAX_CHARACTERS_OF_MESSAGE = 300
TRACEBACK = "Traceback (most recent call last):"
MAX_POINTS_OF_CURVE = 60


@dataclass(frozen=True)
class Ended:
    """How a process ended.

    code  exit status; negative: the signal that ended it
    peak  peak memory in bytes; None if unknown
    """

    code: int
    printed: str
    complaints: str
    peak: int | None


@dataclass(frozen=True)
class Runner:
    """Makes the runs of a comparison, one after another.

    folder  the working folder of each run
    """

    data: Data
    settings: CompareSettings
    folder: Path

    def run(self, objective: str, seed: int, options: Mapping[str, Any]) -> dict[str, Any]:
        """The outcome of a run: {"result": ...}, {"diverged": why} or {"failed": why}; see
        `embedx.comparison.records`.

        options  of this objective, chosen by --tune
        """
        request = self.request(objective, seed, options, self.settings.limit)

        def result(facts: Mapping[str, Any], ended: Ended) -> dict[str, Any]:
            return self._result(objective, facts, ended)

        outcome = run_in_process(request, self.folder, result)
        if options:
            outcome["tuned"] = dict(options)
        return outcome

    def run_trial(
        self, objective: str, options: Mapping[str, Any], limit: Record
    ) -> dict[str, Any]:
        """The outcome of a trial: {"used": settings, "score": of the validation data}; a score of
        None where it failed.
        """
        request = self.request(objective, 1, options, limit)
        failed: dict[str, Any] = {"used": {}, "score": None}
        return failed | run_in_process(request, self.folder, self._result_of_trial)

    def request(
        self, objective: str, seed: int, options: Mapping[str, Any], limit: Record
    ) -> RunRequest:
        """A run that writes its model to the working folder.

        options  for this objective
        limit    the setting that ends the run
        """
        request = self.data.request(objective)
        settings = {**request.options, "seed": seed, "threads": self.settings.used_threads}
        is_limited = objective not in self.data.converging or self.settings.epochs is not None
        if is_limited:
            settings |= limit
        return dataclasses.replace(
            request,
            output=self.folder / "model",
            checkpoint_every="0",
            options={**settings, **options},
        )

    def _result(self, objective: str, facts: Mapping[str, Any], ended: Ended) -> dict[str, Any]:
        """The outcome of a run that was trained, with the scores of its model."""
        data = self.data
        scores, beside = data.scores(self.folder / "model")
        records = {name: score.record() for name, score in scores.items() if score.is_finite}
        if not records:
            return {"failed": "its model has no finite score"}
        record = {
            "epochs": facts["epochs"],
            "seconds": facts["seconds"],
            "pace": facts[data.pace],
            "loss": facts["final_loss"],
            "peak": ended.peak,
            "compiled": COMPILING in ended.complaints,
            "scores": records,
            **beside,
            "curve": thinned(data.curve(facts)),
            "converged": objective in data.converging,
        }
        if "learning_rate_lowered" in facts:
            record["lowered"] = facts["learning_rate_lowered"][-1]
        return {"result": record}

    def _result_of_trial(self, facts: Mapping[str, Any], ended: Ended) -> dict[str, Any]:
        """The outcome of a trial that was trained, with the score on validation data."""
        score = self.data.validation_score(self.folder / "model", facts)
        used = {
            name: facts["settings"][name]
            for name in ("learning_rate", "negatives", *CHOSEN_WITHOUT_RATE)
            if facts["settings"].get(name) is not None
        }
        if score is not None and not math.isfinite(score):
            score = None
        return {"used": used, "score": score}


def run_in_process(
    request: RunRequest,
    folder: Path,
    result: Callable[[Mapping[str, Any], Ended], dict[str, Any]],
) -> dict[str, Any]:
    """Run a request in a process of its own; return `result` of the facts that it prints, while its
    model is in the working folder; {"diverged": why} or {"failed": why} if it did not finish.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    file = folder / "request.json"
    file.write_text(request.to_json(), "utf-8")
    try:
        ended = watched([sys.executable, "-m", "embedx.tasks", str(file)], folder)
        if ended.code != 0:
            return failure(ended)
        return result(json.loads(ended.printed.splitlines()[-1]), ended)
    except EmbedxError as error:
        return {"failed": text_to_json(error.parts)}
    except (ValueError, KeyError, IndexError) as error:
        return {"failed": one_line(f"its output cannot be read ({type(error).__name__}: {error})")}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def failure(ended: Ended) -> dict[str, Any]:
    """The outcome of a process that did not finish: {"diverged": why} or {"failed": why}.

    `refused` is true where it would fail with any seed.
    """
    if ended.code == DivergedError.exit_code:
        return {"diverged": reason(ended.complaints)}
    if ended.code < 0:
        why = ", as by the system when memory is short" if ended.code == -signal.SIGKILL else ""
        return {"failed": f"killed by signal {-ended.code}{why}"}
    return {
        "failed": reason(ended.complaints) or f"ended with status {ended.code}",
        "refused": ended.code == EmbedxError.exit_code,
    }


def watched(command: Sequence[str], folder: Path) -> Ended:
    """How a command ended, with its peak memory.

    The process is killed on an exception, such as Ctrl-C.
    """
    printed = folder / "printed"
    complaints = folder / "complaints"
    peak = None
    with printed.open("wb") as out, complaints.open("wb") as err:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        try:
            while process.poll() is None:
                peak = resident_peak(process.pid) or peak
                time.sleep(SECONDS_BETWEEN_MEASUREMENTS)
        finally:
            process.kill()
            process.wait()

    return Ended(
        process.returncode,
        printed.read_text("utf-8", errors="replace"),
        complaints.read_text("utf-8", errors="replace"),
        peak,
    )


def resident_peak(pid: int) -> int | None:
    """The peak resident memory of a process in bytes; None without /proc, or after its end."""
    # getrusage would include the memory of the parent.
    with contextlib.suppress(OSError, ValueError):
        lines = Path(f"/proc/{pid}/status").read_text("ascii", errors="replace").splitlines()
        for line in lines:
            if line.startswith("VmHWM:"):
                _, kibibytes, *_ = line.split()
                return 1024 * int(kibibytes)
    return None


def reason(complaints: str) -> str | list[Any]:
    """Why a process failed: the error that it wrote last, as by `text_to_json`; or the exception of
    the last traceback, whose message may have several lines.
    """
    _, has_traceback, after = complaints.rpartition(TRACEBACK)
    lines = [line for line in after.splitlines() if line.strip()]
    if has_traceback:
        is_of_calls = [line.startswith(" ") for line in lines]
        lines = lines[is_of_calls.index(False) :][:1] if False in is_of_calls else []
    message = lines[-1].strip() if lines else ""
    with contextlib.suppress(ValueError):
        parts = json.loads(message)
        if isinstance(parts, list):
            return parts
    return one_line(message)[:MAX_CHARACTERS_OF_MESSAGE]


def thinned(points: list[list[float]]) -> list[list[float]]:
    """At most MAX_POINTS_OF_CURVE of the points, evenly, with the last one."""
    step = -(-len(points) // MAX_POINTS_OF_CURVE)
    return points[::-1][:: step or 1][::-1]


def machine() -> str:
    """The name of the CPU, and the number of usable cores."""
    model = platform.processor() or platform.machine()
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text("utf-8", errors="replace").splitlines()
        model = next(
            line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")
        )
    return f"{model}, {usable_cores()} cores, {platform.system()}"
