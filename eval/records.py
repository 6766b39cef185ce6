"""The measurements of an experiment on disk."""

import datetime
import hashlib
import importlib.metadata
import json
import os
import platform
import statistics
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

# of classifiers and word vectors, for jobs that name none
DEFAULT_SEED = 1

Job = dict[str, Any]
Result = dict[str, Any]
Record = dict[str, Any]


class Records:
    """What was measured: a file of one JSON object a line, to which a run only adds, the moment
    that a measurement ends; records that no table reads any more may be removed by hand.

    A line is an environment (machine, versions, data, and the command that was typed; `id` is a
    hash of the first three) or

        {"environment": its id, "job": every setting, "settings": of the experiment, "seed": of the
        run, "ended": when, "sources": hash of embedx's, "eval": hash of the programs that
        measured, "result": what was found}

    Some from before 2026-11-26 have no settings, seed and hash of the programs. Where a job was
    measured more than once the last time counts, but a failure replaces no result. `mixed` says
    that records of all environments are read; otherwise only those of one: the given one or, of
    jobs that are alike in what `compared` returns, the newest that has any of them. Where it
    returns None, the result does not depend on the machine, and records of all are read.
    """

    def __init__(
        self,
        path: Path,
        environment: dict[str, Any] | None = None,
        *,
        mixed: bool = False,
        compared: Callable[[Job], Any] = lambda job: "all",
    ) -> None:
        self.path, self.mixed = path, mixed
        if path.exists():
            lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        else:
            lines = []
        self.environments = [
            line["environment"] for line in lines if isinstance(line.get("environment"), dict)
        ]
        self.environment = environment or (self.environments[-1] if self.environments else {})
        self.by_job: dict[str, Record] = {}
        self.used: dict[str, Record] = {}  # by job, those that were asked for
        records = [line for line in lines if "job" in line]
        newest = {compared(record["job"]): record["environment"] for record in records}
        for record in records:
            alike = compared(record["job"])
            one = environment["id"] if environment else newest[alike]
            if mixed or alike is None or record["environment"] == one:
                self._keep(record)
        if environment and environment not in self.environments:
            self._append({"environment": environment})
            self.environments.append(environment)

    def _keep(self, record: Record) -> None:
        key = json.dumps(record["job"], sort_keys=True)
        if has_failed(record["result"]) and not has_failed(self.by_job.get(key, record)["result"]):
            return
        self.by_job.pop(key, None)  # so that the newest come last
        self.by_job[key] = record

    def _append(self, line: dict[str, Any]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def add(
        self, job: Job, result: Result, sources: str, settings: dict[str, Any] | None = None
    ) -> None:
        """Keep a result; `sources` is a hash of the embedx that was measured, `settings` are those
        of the experiment.
        """
        ended = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        record = {
            "environment": self.environment["id"],
            "job": job,
            "settings": settings or {},
            "seed": job.get("seed", DEFAULT_SEED),
            "ended": ended,
            "sources": sources,
            "eval": hash_of(Path(__file__).parent),
            "result": result,
        }
        self._append(record)
        self._keep(json.loads(json.dumps(record)))

    def get(self, job: Job) -> Result | None:
        """The result of this very job, None where there is none yet."""
        record = self.by_job.get(json.dumps(job, sort_keys=True))
        if record is None or has_failed(record["result"]):
            return None
        self._use([record])
        return dict(record["result"])

    def find(self, **job: Any) -> list[Record]:
        """The records whose jobs have these values, the last measured last."""
        records = [
            record
            for record in self.by_job.values()
            if all(record["job"].get(name) == value for name, value in job.items())
        ]
        self._use(records)
        return records

    def succeeded(self, **job: Any) -> list[Record]:
        """The records of a job that did not fail."""
        return [record for record in self.find(**job) if not has_failed(record["result"])]

    def results(self, **job: Any) -> list[Result]:
        """Their results."""
        return [record["result"] for record in self.succeeded(**job)]

    def last(self, **job: Any) -> Result | None:
        """The last of these results."""
        return next(reversed(self.results(**job)), None)

    def median(self, name: str, **job: Any) -> float | None:
        """The median of one number of these results; None if there are none."""
        values = [result[name] for result in self.results(**job)]
        return statistics.median(values) if values else None

    def environment_of(self, record: Record) -> dict[str, Any]:
        """Where and on which data a record was measured."""
        return next(one for one in self.environments if one["id"] == record["environment"])

    def _use(self, records: Iterable[Record]) -> None:
        """Remember that these were asked for."""
        self.used |= {json.dumps(record["job"], sort_keys=True): record for record in records}

    def with_states(self, make: Callable[["Records"], str]) -> str:
        """A table, with a line after it if its records are of several states of the sources."""
        self.used.clear()
        table = make(self)
        note = states_of(self.used.values())
        return f"{table}\n\n{note}" if note else table

    @property
    def quick(self) -> bool:
        """Whether these are of a trial run."""
        return any(
            fact.get("quick") for fact in self.environment.values() if isinstance(fact, dict)
        )

    def circumstances(self) -> list[str]:
        """When, on which machine, by which versions and commands, on what data; a line each."""
        records = list(self.by_job.values())
        lines: list[str] = []
        for environment in {
            environment["id"]: environment for environment in self.environments
        }.values():
            runs = [record for record in records if record["environment"] == environment["id"]]
            if not runs:
                continue
            ended = sorted(record["ended"][:16].replace("T", " ") for record in runs)
            machine = environment["machine"]
            versions = dict(environment["versions"])
            versions |= {
                record["job"]["tool"]: record["result"]["version"]
                for record in runs
                if "version" in record["result"]
            }
            lines += [
                f"measured: {ended[0]} to {ended[-1]} UTC",
                f"machine: {machine['cpu']}, {machine['cores']} usable cores, {machine['system']}",
                "versions: " + ", ".join(f"{name} {version}" for name, version in versions.items()),
                f"sources of embedx: {', '.join(sorted({record['sources'] for record in runs}))}",
            ]
            about = environment.get("corpus", environment.get("data", {}))
            if facts := [
                f"{name} {shown_fact(fact)}" for name, fact in about.items() if name != "quick"
            ]:
                lines.append("data: " + ", ".join(facts))
            commands = [
                other["command"] for other in self.environments if other["id"] == environment["id"]
            ]
            lines += [f"command: `{command}`" for command in dict.fromkeys(commands)]
        return lines


def states_of(records: Iterable[Record]) -> str:
    """A line that says of how many states of the sources some records are; "" if of one."""
    counts = Counter(record["sources"] for record in records)
    if len(counts) < 2:
        return ""
    named = [f"{sources} ({n})" for sources, n in counts.most_common()]
    return f"States of embedx's sources, and records of each: {', '.join(named)}."


def grouped(records: Iterable[Record], key: Callable[[Job], Any]) -> dict[Any, list[Record]]:
    """Records by what their jobs have in common."""
    groups: dict[Any, list[Record]] = {}
    for record in records:
        groups.setdefault(key(record["job"]), []).append(record)
    return groups


def has_failed(result: Result) -> bool:
    """Whether a result only says what went wrong; an error that is a number is a measure."""
    return isinstance(result.get("error"), str)


def shown_fact(fact: Any) -> str:
    if isinstance(fact, dict):
        return "(" + ", ".join(f"{name} {shown_fact(value)}" for name, value in fact.items()) + ")"
    return f"{fact:,}" if isinstance(fact, int) and not isinstance(fact, bool) else str(fact)[:60]


# ---- the environment


def environment_of(facts: dict[str, Any], packages: Iterable[str], command: str) -> dict[str, Any]:
    """Machine, versions and what is to be known of the data, with the id that is made of these."""
    versions = {"Python": platform.python_version()}
    for package in ("embedx", "numpy", "numba", "llvmlite", "scipy", *packages):
        if (version := version_of(package)) is not None:
            versions[package] = version
    environment = facts | {"machine": machine(), "versions": versions}
    identity = hashlib.sha256(json.dumps(environment, sort_keys=True).encode()).hexdigest()[:12]
    return environment | {"id": identity, "command": command}


def version_of(package: str) -> str | None:
    """None where it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def machine() -> dict[str, Any]:
    """Processor, with family and model on Linux, where some names are those of a whole series."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text().splitlines()
        about = {
            name.strip(): value.strip()
            for name, _, value in (line.partition(":") for line in lines)
        }
        model = about.get("model name", model)
        if "cpu family" in about:
            model += f" (family {about['cpu family']}, model {about['model']})"
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"cpu": model, "cores": cores, "system": f"{platform.system()} {platform.machine()}"}


def sources_hash() -> str:
    """A hash of the embedx that is installed: the page shows if it was edited between
    measurements.
    """
    import embedx

    return hash_of(Path(embedx.__file__).parent)


def hash_of(folder: Path) -> str:
    """A hash of the Python files in a folder."""
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*.py")):
        digest.update(file.relative_to(folder).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:12]
