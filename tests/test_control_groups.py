"""Memory and processors of a container, by the control groups of both versions, and the default
number of threads.
"""

from types import SimpleNamespace

import numpy as np
import psutil
import pytest

from embedx.runtime import control_groups, cores, disk, memory


def group(folder, limit, usage, inactive=0):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (
        ("max", limit),
        ("current", usage),
        ("stat", f"anon 500\ninactive_file {inactive}"),
    ):
        (folder / f"memory.{name}").write_text(f"{content}\n")


def test_the_memory_of_a_container_is_that_of_its_control_group(tmp_path):
    membership = tmp_path / "cgroup"
    groups = tmp_path / "groups"
    membership.write_text("5:cpu:/other\n0::/pod/job\n")
    group(groups / "pod" / "job", "max", 700)
    group(groups / "pod", 1000, 800)
    assert control_groups.memory_left(membership, groups) == 200
    group(groups / "pod", 1000, 800, inactive=300)
    assert control_groups.memory_left(membership, groups) == 500
    group(groups / "pod" / "job", 900, 700)
    assert control_groups.memory_left(membership, groups) == 200


@pytest.mark.parametrize("text", ["", "0::/nowhere\n", "nonsense\n", "0::/../../..\n"])
def test_without_a_memory_control_group_there_is_no_limit(tmp_path, text):
    (tmp_path / "cgroup").write_text(text)
    assert control_groups.memory_left(tmp_path / "cgroup", tmp_path / "groups") == disk.NO_LIMIT
    assert control_groups.memory_left(tmp_path / "absent", tmp_path / "groups") == disk.NO_LIMIT


def test_the_least_of_all_limits_counts(monkeypatch):
    assert 0 < memory.available_memory() < disk.NO_LIMIT
    monkeypatch.setattr(memory, "memory_left", lambda: 1234)
    assert memory.available_memory() == 1234


def test_the_system_says_what_is_free_and_limits_of_the_container_count_on_top(monkeypatch):
    """Without /proc, as on macOS and Windows."""
    free = SimpleNamespace(total=8000, available=3000, free=100)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: free)
    monkeypatch.setattr(memory, "memory_left", lambda: disk.NO_LIMIT)
    assert memory.available_memory() == 3000
    monkeypatch.setattr(memory, "memory_left", lambda: 2000)
    assert memory.available_memory() == 2000
    monkeypatch.setattr(memory, "memory_left", lambda: -5)
    assert memory.available_memory() == 0


def test_all_memory_counts_on_a_linux_without_proc(monkeypatch, tmp_path):
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path))
    pages = {"SC_PHYS_PAGES": 10, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(memory.os, "sysconf", pages.get)
    monkeypatch.setattr(memory, "memory_left", lambda: disk.NO_LIMIT)
    assert memory.available_memory() == 40960


def files(folder, **contents):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name.replace("__", ".")).write_text(f"{content}\n")


def test_the_memory_of_a_container_of_version_1(tmp_path):
    """The container sees its own group as the root of the controller."""
    membership = tmp_path / "cgroup"
    groups = tmp_path / "groups"
    membership.write_text("9:memory:/docker/1f2e\n4:cpu,cpuacct:/docker/1f2e\n0::/\n")
    files(
        groups / "memory",
        memory__limit_in_bytes=1000,
        memory__usage_in_bytes=700,
        memory__stat="cache 300\ninactive_file 1\ntotal_inactive_file 50",
    )
    assert control_groups.memory_left(membership, groups) == 350
    files(groups / "memory", memory__limit_in_bytes=2**63 - 4096)  # without a limit
    assert control_groups.memory_left(membership, groups) > 2**62


@pytest.mark.parametrize(
    ("lines", "folder", "contents", "expected"),
    [
        ("0::/", "", {"memory__max": 1000}, 1000),
        ("0::/", "", {"memory__max": 1000, "memory__current": 300}, 700),
        ("0::/", "", {"memory__max": 1000, "memory__current": 300, "memory__stat": "anon 5"}, 700),
        ("3:memory:/a", "memory", {"memory__limit_in_bytes": 1000}, 1000),
        ("3:hugetlb,memory:/a", "memory", {"memory__limit_in_bytes": 1000}, 1000),
    ],
)
def test_the_memory_left_by_a_control_group_is_its_limit_minus_its_use(
    tmp_path, lines, folder, contents, expected
):
    own_groups = tmp_path / "cgroup"
    groups = tmp_path / "groups"
    own_groups.write_text(f"{lines}\n")
    files(groups / folder, **contents)
    assert control_groups.memory_left(own_groups, groups) == expected


QUOTA_1 = {"cpu__cfs_quota_us": 300000, "cpu__cfs_period_us": 100000}


@pytest.mark.parametrize(
    ("lines", "folder", "contents", "expected"),
    [
        ("0::/", "", {"cpu__max": "150000 100000"}, 1.5),
        ("0::/", "", {"cpu__max": "max 100000"}, np.inf),
        ("0::/pod/job", "pod", {"cpu__max": "50000 100000"}, 0.5),
        ("4:cpu,cpuacct:/docker/1f", "cpu,cpuacct", QUOTA_1, 3.0),
        ("4:cpu,cpuacct:/a/b", "cpu,cpuacct/a", QUOTA_1, 3.0),
        ("4:cpuacct,cpu:/docker/1f", "cpu", QUOTA_1, 3.0),
        ("4:cpu:/", "cpu", {"cpu__cfs_quota_us": -1, "cpu__cfs_period_us": 100000}, np.inf),
        ("0::/", "", {"cpu__max": "nonsense"}, np.inf),
        ("0::/", "", {"cpu__max": "1 0"}, np.inf),
    ],
)
def test_the_quota_of_processors_is_read_from_control_groups_of_both_versions(
    tmp_path, lines, folder, contents, expected
):
    membership = tmp_path / "cgroup"
    groups = tmp_path / "groups"
    membership.write_text(f"{lines}\n")
    files(groups / folder, **contents)
    assert control_groups.processors(membership, groups) == expected


@pytest.mark.parametrize(
    ("n_cores", "quota", "variables", "expected"),
    [
        (8, np.inf, {}, 8),
        (8, 2.5, {}, 3),
        (2, 6.0, {}, 2),
        (8, 0.1, {}, 1),
        (8, np.inf, {"OMP_NUM_THREADS": "4"}, 4),
        (8, np.inf, {"OMP_NUM_THREADS": "4,2"}, 4),
        (8, np.inf, {"OMP_NUM_THREADS": "6", "NUMBA_NUM_THREADS": "3"}, 3),
        (2, np.inf, {"OMP_NUM_THREADS": "16"}, 2),
        (8, np.inf, {"OMP_NUM_THREADS": "", "NUMBA_NUM_THREADS": "many"}, 8),
        (8, np.inf, {"OMP_NUM_THREADS": "0"}, 8),
    ],
)
def test_the_default_number_of_threads(monkeypatch, n_cores, quota, variables, expected):
    monkeypatch.setattr(cores.os, "sched_getaffinity", lambda process: set(range(n_cores)))
    monkeypatch.setattr(cores, "processors", lambda: quota)
    for name in cores.THREAD_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cores.usable_cores() == expected
