"""One run: an objective is trained by the command line in a process of its own, watched, and its model scored.

So a run's memory is measured by itself, and one that dies or diverges ends no other.
"""

import contextlib
import json
import math
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from embedx.comparison.settings import CompareSettings
from embedx.errors import DivergedError, EmbedxError, one_line
from embedx.evaluation.statistics import Score
from embedx.settings import option_name
from embedx.storage.folder import read_description
from embedx.training.progress import Progress
from embedx.training.trainer import usable_cores

MOST_TRIALS = 5  # of an objective, where it is tuned
OF_RATE = ("optimizer", "block_size")  # settings that a learning rate is for: they may follow from the data unless it is given
LOOK = 0.05  # seconds between two looks at the memory of a process
LAST_WORDS = 300  # characters
MOST_POINTS = 60  # of a curve, on record
COMPILING = "compiling kernels"


class Data(Protocol):
    """What objectives are compared on: `embedx.comparison.text.Text` or `embedx.comparison.labels.LabelledData`."""

    command: str  # that trains on it
    unit: str  # "words" or "examples"

    @property
    def measures(self) -> tuple[str, ...]: ...  # in the order of tables; the first is ranked by if all runs have it
    @property
    def name(self) -> str: ...
    @property
    def curve_of(self) -> str: ...
    def check(self, names: Sequence[str]) -> None: ...
    def identity(self) -> dict[str, Any]: ...
    def arguments(self) -> list[str]: ...
    def prepare(self, progress: Progress) -> dict[str, Any]: ...
    def scores(self, model: Path) -> tuple[dict[str, Score], dict[str, Any]]: ...
    def validation_score(self, model: Path, facts: Mapping[str, Any]) -> float | None: ...  # the higher, the better
    def curve(self, facts: Mapping[str, Any]) -> list[list[float]]: ...


@dataclass(frozen=True)
class Ended:
    """How a process ended."""

    code: int  # below 0 by a signal
    printed: str
    complaints: str
    peak: int | None  # bytes; None where the system does not tell


def command_of(
    data: Data,
    objective: str,
    seed: int,
    settings: CompareSettings,
    folder: Path,
    options: Mapping[str, Any] = MappingProxyType({}),
    stopping: tuple[str, str] | None = None,
) -> list[str]:
    """The command of a run that writes its model and its log to `folder`; `options` are the objective's alone."""
    places = ["--output", str(folder / "model"), "--log-json", str(folder / "log"), "--checkpoint-every", "0", "--json"]
    how = ["--seed", str(seed), "--threads", str(settings.used_threads), *(stopping or settings.stopping)]
    how += typed_options(options)
    return [sys.executable, "-m", "embedx", data.command, *data.arguments(), "--objective", objective, *how, *places]


def typed_options(options: Mapping[str, Any]) -> list[str]:
    """Settings as they are typed."""
    typed: list[str] = []
    for name, value in options.items():
        flag = option_name(name)
        typed += [flag if value else f"--no-{flag[2:]}"] if isinstance(value, bool) else [flag, str(value)]
    return typed


@contextlib.contextmanager
def place_of_work(folder: Path) -> Iterator[None]:
    """A folder that is new, and there only for as long."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measured(
    data: Data,
    objective: str,
    seed: int,
    settings: CompareSettings,
    folder: Path,
    options: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Any]:
    """What came of a run: {"result": ...}, {"diverged": why} or {"failed": why}; see `embedx.comparison.records`.

    options   the objective's alone; `folder` is where the run works
    """
    with place_of_work(folder):
        ended = watched(command_of(data, objective, seed, settings, folder, options), folder)
        return outcome(data, ended, folder) | ({"tuned": dict(options)} if options else {})


def tried(
    data: Data, objective: str, seed: int, settings: CompareSettings, folder: Path, options: Mapping[str, Any]
) -> dict[str, Any]:
    """What came of a trial: {"used": settings, "score": of the validation data}, or the score None and why it "failed"."""
    with place_of_work(folder):
        stopping = settings.stopping_of_trials(MOST_TRIALS)
        ended = watched(command_of(data, objective, seed, settings, folder, options, stopping), folder)
        if ended.code:
            return {"used": {}, "score": None, "failed": last_words(ended.complaints) or f"ended with status {ended.code}"}
        try:
            facts = json.loads(ended.printed.splitlines()[-1])
            used = read_description(folder / "model")["settings"]
            score = data.validation_score(folder / "model", facts)
        except (EmbedxError, ValueError, KeyError, IndexError) as error:
            return {"used": {}, "score": None, "failed": one_line(str(error))}
    kept = {name: used[name] for name in ("learning_rate", "negatives", *OF_RATE) if used.get(name) is not None}
    return {"used": kept, "score": score if score is not None and math.isfinite(score) else None}


def outcome(data: Data, ended: Ended, folder: Path) -> dict[str, Any]:
    """What came of a run whose process has ended."""
    if ended.code == DivergedError.exit_code:
        return {"diverged": last_words(ended.complaints)}
    if ended.code < 0:
        why = ", as by the system when memory is short" if ended.code == -9 else ""
        return {"failed": f"killed by signal {-ended.code}{why}"}
    if ended.code:
        return {"failed": last_words(ended.complaints) or f"ended with status {ended.code}"}
    try:
        facts = json.loads(ended.printed.splitlines()[-1])
        scores, beside = data.scores(folder / "model")
        result = {
            "epochs": facts["epochs"], "seconds": facts["seconds"], "pace": facts[f"{data.unit}_per_second"],
            "loss": facts["final_loss"], "peak": ended.peak, "compiled": COMPILING in ended.complaints,
            "scores": {name: score.record() for name, score in scores.items() if score.is_finite}, **beside,
            "curve": thinned(data.curve(facts)),
        }  # fmt: skip
    except EmbedxError as error:
        return {"failed": str(error)}
    except (ValueError, KeyError, IndexError) as error:
        return {"failed": one_line(f"what it printed cannot be read ({type(error).__name__}: {error})")}
    if "learning_rate_lowered" in facts:
        result["lowered"] = facts["learning_rate_lowered"][-1]
    return {"result": result} if result["scores"] else {"failed": "its model has no finite score"}


def watched(command: Sequence[str], folder: Path) -> Ended:
    """Run a command to its end, with the most memory that was resident until its log was last written to: the end of training,
    what was scored on the way included. It does not outlive an exception, such as Ctrl-C.
    """
    printed, complaints, log = (folder / name for name in ("printed", "complaints", "log"))
    seen: list[tuple[float, int]] = []  # time.time(), bytes
    with printed.open("wb") as out, complaints.open("wb") as err:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        try:
            while process.poll() is None:
                if (size := resident_peak(process.pid)) is not None:
                    seen.append((time.time(), size))
                time.sleep(LOOK)
        finally:
            process.kill()
            process.wait()
    ended = log.stat().st_mtime if log.exists() and log.stat().st_size else time.time()
    peak = max((size for when, size in seen if when <= ended), default=None)
    told, complained = (file.read_text("utf-8", errors="replace") for file in (printed, complaints))
    return Ended(process.returncode, told, complained, peak)


def resident_peak(pid: int) -> int | None:
    """The most memory a process ever had resident, in bytes; None where there is no /proc or the process is gone.

    The operating system's other account, getrusage, begins with the memory of the parent.
    """
    with contextlib.suppress(OSError, ValueError):
        lines = Path(f"/proc/{pid}/status").read_text("ascii", errors="replace").splitlines()
        return next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), None)
    return None


def last_words(complaints: str) -> str:
    """The last line that a process wrote, without the name of the program."""
    lines = [line.strip() for line in complaints.splitlines() if line.strip()]
    return one_line(lines[-1].removeprefix("embedx: "))[:LAST_WORDS] if lines else ""


def thinned(points: list[list[float]]) -> list[list[float]]:
    """At most MOST_POINTS of a curve, evenly, with its last."""
    step = -(-len(points) // MOST_POINTS)
    return points[::-1][::step][::-1] if points else points


def machine() -> str:
    """The processor's name, and how many cores may be used."""
    model = platform.processor() or platform.machine()
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text("utf-8", errors="replace").splitlines()
        model = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return f"{model}, {usable_cores()} cores, {platform.system()}"
