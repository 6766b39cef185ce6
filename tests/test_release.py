"""What a release declares in several files agrees."""

import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
JOBS = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8"))["jobs"]


def test_the_lowest_versions_that_are_tested_are_those_that_are_declared():
    extras = PROJECT["optional-dependencies"]
    declared = list(PROJECT["dependencies"])
    for name in ("zstd", "parquet", "plots", "sklearn"):
        declared += extras[name]
    lowest = {}
    for line in (ROOT / ".github" / "lowest.txt").read_text("utf-8").splitlines():
        if not line.startswith("#"):
            name, version = line.split("==")
            lowest[name] = re.escape(version).replace(r"\.0", r"(\.0)?")
    for requirement in declared:
        name, version = re.match(r"([\w-]+)(?:\[\w+\])?>=([\d.]+)", requirement).groups()
        assert re.fullmatch(lowest.pop(name), version), requirement
    assert not lowest


def test_each_python_of_the_classifiers_is_tested_on_each_system():
    classifiers = PROJECT["classifiers"]
    pythons = [line.rpartition(" ")[2] for line in classifiers if re.search(r"3\.\d+$", line)]
    systems = [line for line in classifiers if line.startswith("Operating")]
    matrix = JOBS["tests"]["strategy"]["matrix"]
    assert matrix["python"] == pythons
    assert len(matrix["os"]) == len(systems)
    assert set(JOBS["publish"]["needs"]) == set(JOBS) - {"publish"}


def test_the_citation_is_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert (citation["version"], citation["license"]) == (PROJECT["version"], PROJECT["license"])
    assert len(citation["references"]) == 5


def test_actions_that_may_publish_are_pinned_by_commit():
    trusted = [job for job in JOBS.values() if "id-token" in job.get("permissions", {})]
    assert trusted
    for job in trusted:
        for step in job["steps"]:
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", step["uses"]), step["uses"]
