"""Which tests `python -m pytest` leaves to `python -m pytest --all`."""

from pathlib import Path

import pytest

from tests.support import tiers
from tests.support.forked import embedx_run
from tests.support.ray_cluster import cluster_of

ROOT = Path(__file__).parents[1]


def trained(home):
    return embedx_run(home, "train", "a.txt")


class Run:
    def start(self, home):
        return trained(home)


def a_command_of_a_helper(home):
    assert trained(home)


def a_command_of_a_method(home):
    assert Run().start(home)


def an_import_of_its_own():
    import subprocess

    assert subprocess.run(["true"]).returncode == 0


def a_function_within_it():
    assert [cluster_of(n) for n in (1, 2)]


def no_process():
    assert ROOT.exists()


@pytest.mark.parametrize(
    ("test", "marks"),
    [
        (a_command_of_a_helper, {"processes"}),
        (a_command_of_a_method, {"processes"}),
        (an_import_of_its_own, {"processes"}),
        (a_function_within_it, {"ray"}),
        (no_process, set()),
    ],
)
def test_a_test_has_the_marks_of_what_it_uses(test, marks):
    assert tiers.marks_of_value(test) == marks


def test_a_value_of_a_parametrized_test_counts_too():
    assert tiers.marks_of_value([lambda home: trained(home)]) == {"processes"}


@pytest.fixture
def command():
    return lambda home: trained(home)


def test_a_fixture_counts_too(command, request):
    assert tiers.marks_of(request.node) == ["processes"]


@pytest.mark.parametrize("page", ["README.md", ".github/workflows/ci.yml"])
def test_pages_that_promise_all_tests_run_all(page):
    lines = (ROOT / page).read_text("utf-8").splitlines()
    commands = [line for line in lines if "-m pytest" in line]
    assert commands
    assert all(line.endswith("python -m pytest --all") for line in commands)
