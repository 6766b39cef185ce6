"""Changes the package in one place at a time and prints which changes no test notices: `python -m tests.mutation --sample 20`.

A mutant is a copy of the package in which one sign, bound, constant or condition within a function is another, or one sum is
left out. The tests that reach its line are run until one fails, as plain Python under NUMBA_DISABLE_JIT, so that nothing is
compiled. A mutant that they all pass has survived: it is printed by file, line and function, with the line before and after.
So is one that no test reaches without the compiler, or within TEST_SECONDS, which says nothing about the tests.
"""

import ast
import copy
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

ROOT = Path(__file__).parents[1]
# The folders whose files are changed, each with the tests that are about it. Others reach it too, but less closely.
TESTS = {
    "embedx/objectives": "objectives* bouchard binary_tree sparse_weights search_messages",
    "embedx/samplers": "samplers* adversarial",
    "embedx/optimizers": "optimizers engine_numbers",
    "embedx/engine": "engine_* sparse_rows sparse_weights label_tree subwords",
    "embedx/search": "search*",
    "embedx/labeled": "labeled_* damaged_files bounded_memory",
    "embedx/text": "text_* streams fetch subwords skipgram_objectives corpus_check "
    "evaluation_heldout bounded_memory damaged_files",
}
TEST_SECONDS = 3  # a test that takes longer than this as plain Python is not used
FILE_SECONDS = 200  # of processor time for the tests of one file
MAX_SECONDS = 12  # of tests for one mutant, the quickest first
# A mutant whose tests take so many seconds of processor time, and so many times as long as unchanged, hangs.
START_SECONDS, SLOWER = 10, 3
NO_EFFECT = ("prefetch", "_compile")  # functions with these in their names make others faster, and nothing else
SWITCHES = ("PYTHONDONTWRITEBYTECODE", "NUMBA_DISABLE_JIT", "PYTEST_DISABLE_PLUGIN_AUTOLOAD")
OPTIONS = ["-q", "-p", "no:cacheprovider", "-p", "xdist", "-n", "0", "--dist", "no", "-p", "timeout", "-p", "pytest_cov"]


# ---- what is changed


class Mutant(NamedTuple):
    """One change of one file."""

    file: str
    function: str
    lines: range  # of the statement, or of what stands before its block
    before: str
    after: str
    source: str  # of the file with the change

    def __str__(self):
        return f"{self.file}:{self.lines.start} {self.function}\n    - {self.before}\n    + {self.after}"


SWAPPED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.And: ast.Or, ast.Or: ast.And}
SWAPPED |= {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
BLOCKS = ("body", "orelse", "finalbody", "handlers")


def replacements(node: ast.AST) -> Iterator[ast.AST]:
    """What may stand in the place of a node, one change each."""
    if isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in SWAPPED:
        yield but(node, op=SWAPPED[type(node.op)]())
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not):
        yield node.operand
    elif isinstance(node, ast.Compare):
        for i, sign in enumerate(node.ops):
            if type(sign) in SWAPPED:
                yield but(node, ops=[*node.ops[:i], SWAPPED[type(sign)](), *node.ops[i + 1 :]])
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
        end = min(len(node.args) - 1, 1)
        step = node.args[2] if len(node.args) == 3 else ast.Constant(1)
        shorter = ast.BinOp(node.args[end], ast.Sub(), step)
        yield but(node, args=[*node.args[:end], shorter, *node.args[end + 1 :]])
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield ast.Constant(type(node.value)(1 - node.value) if node.value in (0, 1) else 2 * node.value)
    elif isinstance(node, ast.AugAssign):
        yield ast.Pass()
        if type(node.op) in SWAPPED:
            yield but(node, op=SWAPPED[type(node.op)]())


def but(node, **fields):
    """A copy of a node with other fields."""
    node = copy.copy(node)
    for name, value in fields.items():
        setattr(node, name, value)
    return node


def places(node: ast.AST, function: str = "", statement: ast.stmt | None = None) -> Iterator[tuple]:
    """Where in a tree something may be changed: (function, statement, parent, field, index or None) of each node.

    That is within functions, but for their signatures. Settings and constants of a module are choices, which tests are not to
    repeat; what is raised, or written into a message, is matched by tests of its own kind.
    """
    for field, value in ast.iter_fields(node):
        if field in ("decorator_list", "annotation", "returns", "args" if isinstance(node, ast.FunctionDef) else ""):
            continue
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(child, ast.AST) or isinstance(child, ast.Raise | ast.JoinedStr) or has_no_effect(child):
                continue
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                yield from places(child, f"{function}.{child.name}".lstrip("."), child)
            elif not isinstance(node, ast.ClassDef):
                inner = child if isinstance(child, ast.stmt) else statement
                if function:
                    yield function, inner, node, field, index
                yield from places(child, function, inner)


def has_no_effect(node):
    name = node.name if isinstance(node, ast.FunctionDef) else getattr(getattr(node, "func", None), "id", "")
    return any(each in name for each in NO_EFFECT)


def head(statement: ast.stmt) -> str:
    """A statement in one line, without its block."""
    blocks = {name: [] for name in BLOCKS if isinstance(getattr(statement, name, None), list)}
    return ast.unparse(ast.fix_missing_locations(but(statement, **blocks))).strip().splitlines()[0]


def mutants(file: str, source: str) -> Iterator[Mutant]:
    """All mutants of a file."""
    tree = ast.parse(source)
    for function, statement, parent, field, index in list(places(tree)):
        node = getattr(parent, field) if index is None else getattr(parent, field)[index]
        before = head(statement)
        body = next((block for name in BLOCKS if isinstance(block := getattr(statement, name, None), list) and block), None)
        end = max(statement.lineno, body[0].lineno - 1) if body else statement.end_lineno
        for new in replacements(node):
            put(new, parent, field, index)
            changed = ast.unparse(ast.fix_missing_locations(tree))
            after = head(new if node is statement else statement)
            yield Mutant(file, function, range(statement.lineno, end + 1), before, after, changed)
        put(node, parent, field, index)


def put(node: ast.AST, parent: ast.AST, field: str, index: int | None) -> None:
    """Put a node into a place of `places`."""
    if index is None:
        setattr(parent, field, node)
    else:
        getattr(parent, field)[index] = node


# ---- which tests reach a line, and what they say of a mutant


def run_tests(folder: Path, *arguments: str, seconds: float) -> int:
    """pytest's exit code, as plain Python in a folder that has a copy of the package.

    Negative after so many seconds of processor time, or three times as many of waiting. Only the plugins that are named in
    OPTIONS are loaded: the others take most of the time of a start.
    """
    environment = os.environ | {"PYTHONPATH": str(folder), **dict.fromkeys(SWITCHES, "1")}
    command = [sys.executable, "-m", "pytest", *OPTIONS, *arguments]
    limit = int(seconds)
    try:
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, timeout=3 * seconds,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit, limit)),
        ).returncode  # fmt: skip
    except subprocess.TimeoutExpired:
        return -1


def pytest_runtest_logreport(report):
    """As a plugin of pytest: write down how long each test that passes takes."""
    if report.when == "call" and report.passed and "MUTATION_SECONDS" in os.environ:
        with open(os.environ["MUTATION_SECONDS"], "a") as out:
            out.write(f"{report.duration} {report.nodeid}\n")


def measure(folder: Path, files: list[str]) -> tuple[dict[str, float], dict[tuple[str, int], set[str]]]:
    """The seconds of each test, and the tests that reach each line of the package."""
    from coverage import CoverageData

    os.environ["MUTATION_SECONDS"] = str(folder / "seconds.txt")
    for file in files:  # each by itself, so that one that hangs does not take the others along
        run_tests(folder, "-p", "tests.mutation", f"--timeout={TEST_SECONDS}", file, seconds=FILE_SECONDS)
    del os.environ["MUTATION_SECONDS"]
    lines = (folder / "seconds.txt").read_text().splitlines()
    seconds = {test: float(number) for number, test in (line.split(" ", 1) for line in lines)}
    # By itself, because the signal of --timeout deadlocks where it comes while coverage holds its lock.
    run_tests(folder, "--cov=embedx", "--cov-context=test", "--cov-report=", *seconds, seconds=FILE_SECONDS * len(files))
    reached = defaultdict(set)
    data = CoverageData(folder / ".coverage")
    data.read()
    for path in data.measured_files():
        file = Path(path).relative_to(folder.resolve()).as_posix()
        for line, contexts in data.contexts_by_lineno(path).items():
            reached[file, line] = {name for each in contexts if (name := each.rpartition("|")[0]) in seconds}
    return seconds, reached


def outcome(mutant: Mutant, folder: Path, seconds: dict[str, float], reached: dict[tuple[str, int], set[str]]) -> str:
    """What becomes of a mutant: "killed", "timed out", "survived" or "not reached"."""
    tests = sorted(set().union(*(reached[mutant.file, line] for line in mutant.lines)), key=lambda test: seconds[test])
    total = 0.0
    chosen = [test for test in tests if (total := total + seconds[test]) < MAX_SECONDS]
    if not chosen:
        return "not reached"
    path = folder / mutant.file
    source = path.read_text()
    path.write_text(mutant.source)
    code = run_tests(folder, "-x", *chosen, seconds=START_SECONDS + SLOWER * total)
    path.write_text(source)
    return "survived" if code == 0 else "timed out" if code < 0 else "killed"


def main(folders: Annotated[list[str] | None, typer.Argument()] = None, sample: int | None = None, seed: int = 1) -> None:
    """Try so many mutants of each folder, at random, others with each seed; all folders and mutants, if none are given."""
    total: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "copy")
        shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns("__pycache__", ".*"))
        for only in folders or TESTS:
            files = sorted((ROOT / only).glob("*.py"))
            found = [each for path in files for each in mutants(path.relative_to(ROOT).as_posix(), path.read_text())]
            chosen = random.Random(seed).sample(found, min(sample or len(found), len(found)))
            tests = [path for each in TESTS[only].split() for path in sorted((ROOT / "tests").glob(f"test_{each}.py"))]
            (folder / "seconds.txt").write_text("")
            measured = measure(folder, [path.relative_to(ROOT).as_posix() for path in tests])
            counts: Counter[str] = Counter()
            for mutant in chosen:
                result = outcome(mutant, folder, *measured)
                counts[result] += 1
                if result != "killed":
                    print(f"{result}: {mutant}", flush=True)
            total += counts
            print(f"{only}: {', '.join(f'{n} {each}' for each, n in sorted(counts.items()))}", flush=True)
    sys.exit(bool(total["survived"]))


if __name__ == "__main__":
    typer.run(main)
