"""That `python -m tests.mutation` makes the changes it should and knows which of them are noticed."""

import re
import subprocess
import sys
from pathlib import Path

import mutation
import pytest

MODULE = """def large(x):
    return x > 3


def endless(x):
    while not x:
        x = 1
    return x


def untested(x):
    return -x
"""
TEST = """
import pytest
from embedx.tiny.module import endless, large

@pytest.mark.parametrize("x", [5], ids=["a|b"])
def test_large(x):
    assert large(x)

def test_endless():
    assert endless(0) == 1
"""
PRINTED = re.compile(r"([a-z ]+): embedx/tiny/module.py:\d+ (\w+)\n    - .*\n    \+ (.*)\n")


def test_each_folder_has_all_tests_that_are_named_for_it():
    names = {name for tests in mutation.TESTS.values() for name in tests.split()}
    assert {name for name in names if not list(Path(__file__).parent.glob(f"test_{name}.py"))} == set()


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
        ("a = 1; b = 2; a = 1", ["a = 0", "b = 4", "a = 0"]),
        ("raise ValueError(a + 1)", []),
        ("return f'{a + 1}'", []),
        ("prefetch(a, 1)", []),
        ("return 'a'", []),
    ],
)  # fmt: skip
def test_one_thing_is_changed_at_a_time(source, after):
    assert [each.after for each in mutation.mutants("x.py", f"def f(a, b=2, *, c: int = 3):\n    {source}\n")] == after


def test_what_no_test_notices_survives_and_is_printed(tmp_path):
    files = {
        "embedx/tiny/module.py": MODULE, "embedx/tiny/__init__.py": "", "embedx/__init__.py": "",
        "pyproject.toml": '[tool.pytest.ini_options]\naddopts = "--dist worksteal"\n', "tests/test_tiny.py": TEST,
        "tests/mutation.py": Path(mutation.__file__).read_text(),
    }  # fmt: skip
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    code = "from tests import mutation; mutation.START_SECONDS = 1; mutation.TESTS = {'embedx/tiny': 'tiny'}; mutation.main()"
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 1, ran.stderr
    assert {(what, function, after) for what, function, after in PRINTED.findall(ran.stdout)} == {
        ("survived", "large", "return x >= 3"),
        ("timed out", "endless", "x = 0"),
        ("not reached", "untested", "return x"),
    }
    assert ran.stdout.splitlines()[-1] == "embedx/tiny: 2 killed, 1 not reached, 1 survived, 1 timed out"
    assert (tmp_path / "embedx/tiny/module.py").read_text() == MODULE
