"""That `python -m tests.mutation` makes the changes it should and knows which of them are noticed."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import mutation
import pytest

MODULE = """def half(x):
    return x - 1 if x > 3 else x


def endless(x):
    while not x:
        x = 1
    return x


def untested(x):
    return -x
"""
TEST = """
from embedx.tiny.module import endless, half

def test_half():
    assert half(9) == 8

def test_endless():
    assert endless(0) == 1
"""
PRINTED = re.compile(r"([a-z ]+): embedx/tiny/module.py:(\d+) (\w+)\n    - (.*)\n    \+ (.*)\n")


def changes(source):
    return [mutant.after for mutant in mutation.mutants("x.py", f"def f(a, b=2, *, c: int = 3):\n    {source}\n")]


@pytest.mark.parametrize(
    ("source", "after"),
    [
        ("return a + b * c", ["return a - b * c", "return a + b / c"]),
        ("return a - b / c", ["return a + b / c", "return a - b * c"]),
        ("return -a", ["return a"]),
        ("return a < b <= c", ["return a <= b <= c", "return a < b < c"]),
        ("return a > b or a >= c", ["return a > b and a >= c", "return a >= b or a >= c", "return a > b or a > c"]),
        ("return a == b and c", ["return a == b or c", "return a != b and c"]),
        ("return not a", ["return a"]),
        ("a += b", ["pass", "a -= b"]),
        ("a *= b", ["pass", "a /= b"]),
        ("a |= b", ["pass"]),
        ("return range(a), range(b, c, a)", ["return (range(a - 1), range(b, c, a))", "return (range(a), range(b, c - a, a))"]),
        ("return 0, 1, 7, 0.0, 0.5, True", [
            "return (1, 1, 7, 0.0, 0.5, True)", "return (0, 0, 7, 0.0, 0.5, True)", "return (0, 1, 14, 0.0, 0.5, True)",
            "return (0, 1, 7, 1.0, 0.5, True)", "return (0, 1, 7, 0.0, 1.0, True)", "return (0, 1, 7, 0.0, 0.5, False)",
        ]),
        ("for k in range(a): b(k)", ["for k in range(a - 1):"]),
        ("if a: b = 1", ["b = 0"]),
        ("a = 1; b = 2; a = 1", ["a = 0", "b = 4", "a = 0  # 2"]),
        ("raise ValueError(a + 1)", []),
        ("return f'{a + 1}'", []),
        ("prefetch(a, 1)", []),
        ("return 'a'", []),
    ],
)  # fmt: skip
def test_one_thing_is_changed_at_a_time(source, after):
    assert changes(source) == after


def test_nothing_is_changed_outside_functions():
    assert mutation.mutants("x.py", "A = 1\nclass B:\n    c: int = 2 + 3\n") == []


def test_a_mutant_is_the_file_with_its_change_alone():
    all_of_it = mutation.mutants("x.py", MODULE)
    for mutant in all_of_it:
        source = mutation.mutants("x.py", MODULE, mutant.number).splitlines()
        before = ast.unparse(ast.parse(MODULE)).splitlines()
        assert [new.strip() for new, old in zip(source, before, strict=True) if new != old] == [mutant.after]
        assert mutant.before in MODULE.splitlines()[mutant.line - 1]


def run(folder, *options):
    """What `python -m tests.mutation` says of the tiny package in a folder, and its exit code."""
    code = (
        f"import sys; from pathlib import Path; from tests import mutation; mutation.ROOT = Path({str(folder)!r}); "
        "mutation.TESTS = {'embedx/tiny': 'tiny*'}; mutation.LOADED = ('pytest', 'coverage'); mutation.START_SECONDS = 3; "
        "mutation.main()"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, *options], cwd=folder, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
    )  # fmt: skip
    return ran.stdout, ran.stderr, ran.returncode


@pytest.fixture
def tiny(tmp_path):
    for name, content in [("embedx/tiny/module.py", MODULE), ("embedx/tiny/__init__.py", ""), ("tests/test_tiny.py", TEST)]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    (tmp_path / "embedx/__init__.py").touch()
    return tmp_path


def test_what_no_test_notices_survives_and_is_printed(tiny):
    said, _, code = run(tiny)
    assert code == 1
    assert {(what, function, after) for what, _, function, _, after in PRINTED.findall(said)} == {
        ("survived", "half", "return x - 1 if x >= 3 else x"),
        ("survived", "half", "return x - 1 if x > 6 else x"),
        ("timed out", "endless", "x = 0"),
        ("not reached", "untested", "return x"),
    }
    assert all(MODULE.splitlines()[int(line) - 1].strip().startswith(before) for _, line, _, before, _ in PRINTED.findall(said))
    total = " ".join(said.splitlines()[-1].split())
    assert total == "all 6 tried 4 killed 1 of them timed out 2 survived 66.7 %; 1 not reached"
    assert (tiny / "embedx/tiny/module.py").read_text() == MODULE
