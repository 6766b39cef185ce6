"""Changes the package in one place at a time and prints which changes no test notices: `python -m tests.mutation --sample 20`.

A mutant is a copy of the package in which one sign, bound, constant or condition within a function is another, or one sum is
left out. The tests that reach its line are run until one fails, as plain Python under NUMBA_DISABLE_JIT, so that nothing is
compiled. A mutant that they all pass has survived: it is printed by file, line and function, with the line before and after.
So is one that no test reaches without the compiler, or within TEST_SECONDS, which says nothing about the tests.

Which tests reach a line is measured first, which takes minutes; with --keep FOLDER that serves the next time too, as far as
neither the package nor the tests have changed. Needs coverage, and a system that can fork.
"""

import argparse
import ast
import contextlib
import copy
import hashlib
import importlib
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
# The folders whose files are changed, each with the tests that are about it. Others reach it too, but less closely.
TESTS = {
    "embedx/objectives": "objectives* bouchard huffman search_messages",
    "embedx/samplers": "samplers* adversarial",
    "embedx/optimizers": "optimizers engine_numbers",
    "embedx/engine": "engine_* sparse_rows label_tree",
    "embedx/search": "search_*",
    "embedx/labeled": "labeled_* damaged_files bounded_memory",
    "embedx/text": "text_* streams fetch corpora corpus_check evaluation_heldout bounded_memory damaged_files",
}
# Of files most of whose tests train whole models, which takes too long as plain Python, those that do not.
SOME = {"test_label_tree.py": "tile or level or beam or vector"}
TEST_SECONDS = 3  # a test that takes longer than this as plain Python, while it is measured, is not used
MAX_SECONDS = 12  # of tests for one mutant, the quickest first
# A mutant that takes longer than this, and SLOWER times as long as the tests take unmutated, hangs.
START_SECONDS, SLOWER = 10, 2
BUSY = 5  # times as long it may take on a machine that does other things too
LOADED = ("numpy", "numba", "scipy.sparse", "scipy.special", "scipy.optimize", "pytest", "coverage", "typer")
NO_EFFECT = ("prefetch", "_compile")  # functions with these in their names make others faster, and nothing else


# ---- what is changed


class Mutant(NamedTuple):
    """One change of one file."""

    file: str
    number: int  # among those of its file
    function: str
    line: int  # where the change is
    line_range: tuple[int, int]  # of the statement, or of what stands before its block
    before: str
    after: str

    def __str__(self):
        return f"{self.file}:{self.line} {self.function}\n    - {self.before}\n    + {self.after}"


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
        turn = node.args[2] if len(node.args) == 3 else ast.Constant(1)
        shorter = ast.BinOp(node.args[end], ast.Sub(), turn)
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
            if isinstance(child, ast.FunctionDef | ast.ClassDef) and not is_without_effect(child):
                name = f"{function}.{child.name}".lstrip(".")
                yield from places(child, name, child)
            elif (
                isinstance(child, ast.AST)
                and not isinstance(child, ast.FunctionDef | ast.Raise | ast.JoinedStr)
                and not is_without_effect(child)
            ):
                inner = child if isinstance(child, ast.stmt) else statement
                if function and not isinstance(node, ast.ClassDef):
                    yield function, inner, node, field, index
                if not isinstance(node, ast.ClassDef):
                    yield from places(child, function, inner)


def is_without_effect(node):
    name = node.name if isinstance(node, ast.FunctionDef) else getattr(getattr(node, "func", None), "id", "")
    return any(each in name for each in NO_EFFECT)


def head(statement: ast.stmt) -> str:
    """A statement in one line, without its block."""
    blocks = {name: [] for name in BLOCKS if isinstance(getattr(statement, name, None), list)}
    return ast.unparse(ast.fix_missing_locations(but(statement, **blocks))).strip().splitlines()[0]


def around_change(before: str, after: str) -> list[str]:
    """Both lines; of long ones what is near their difference."""
    same = next((i for i, (old, new) in enumerate(zip(before, after, strict=False)) if old != new), 0)
    return [line[max(same - 50, 0) : same + 50] if len(line) > 110 else line for line in (before, after)]


def mutants(file: str, source: str, number: int | None = None) -> list[Mutant] | str:
    """All mutants of a file, or the source of one of them."""
    tree = ast.parse(source)
    found: list[Mutant] = []
    seen: Counter = Counter()
    for function, statement, parent, field, index in list(places(tree)):
        where = getattr(parent, field)
        node = where if index is None else where[index]
        before = head(statement)
        body = next((block for name in BLOCKS if isinstance(block := getattr(statement, name, None), list) and block), None)
        last_line = max(statement.lineno, body[0].lineno - 1) if body else statement.end_lineno
        for new in replacements(node):
            put(new, parent, field, index)
            if number == len(found):
                return ast.unparse(ast.fix_missing_locations(tree))
            after = head(new if node is statement else statement)
            short_before, after = around_change(before, after)
            seen[function, after] += 1
            if seen[function, after] > 1:  # such a line stands there more than once
                after += f"  # {seen[function, after]}"
            line = (node if hasattr(node, "lineno") else statement).lineno
            found.append(Mutant(file, len(found), function, line, (statement.lineno, last_line), short_before, after))
        put(node, parent, field, index)
    return found


def put(node: ast.AST, parent: ast.AST, field: str, index: int | None) -> None:
    """Put a node into a place of `places`."""
    if index is None:
        setattr(parent, field, node)
    else:
        getattr(parent, field)[index] = node


# ---- which tests reach a line


class Reached(NamedTuple):
    """Of one test file: the seconds of each test, and the tests that reach each line of each file of the package."""

    seconds: dict[str, float]
    lines: dict[str, dict[int, list[str]]]  # [""] where it may be for all of them, as in a fixture or an import


class Measuring:
    """A pytest plugin: what each test takes and reaches. A test that fails, is skipped or takes too long is not kept.

    Each runs in a process of its own, with the fixtures that were made before: one that takes too long ends with its threads.
    """

    def __init__(self, coverage, lines):
        self.coverage, self.lines, self.seconds, self.left_out = coverage, lines, {}, set()

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem):
        arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
        with tempfile.NamedTemporaryFile() as out:

            def work():
                resource.setrlimit(resource.RLIMIT_CPU, (TEST_SECONDS, TEST_SECONDS + 1))
                self.coverage.switch_context(pyfuncitem.nodeid)
                pyfuncitem.obj(**arguments)
                self.coverage.stop()
                seconds = time.process_time()
                Path(out.name).write_text(json.dumps([seconds, lines_by_file(self.coverage, pyfuncitem.nodeid)]))
                return 0

            if ended(child(work), BUSY * TEST_SECONDS) != 0:
                pytest.fail(f"it does, or takes more than {TEST_SECONDS} seconds")
            self.seconds[pyfuncitem.nodeid], reached = json.load(out)
            for path, lines in reached.items():
                for line in lines:
                    self.lines.setdefault(path, {}).setdefault(line, []).append(pyfuncitem.nodeid)
        return True

    def pytest_runtest_logreport(self, report):
        if not report.passed:
            self.left_out.add(report.nodeid)


def lines_by_file(coverage, context):
    """The lines that were reached in a context, by file."""
    data = coverage.get_data()
    data.set_query_context(context)
    return {os.path.relpath(path): lines for path in data.measured_files() if (lines := data.lines(path))}


def measure(test_file: str, out: Path) -> int:
    """Run a test file in the working directory and write what it reaches."""
    import coverage

    lines: dict[str, dict[int, list[str]]] = {}
    counter = coverage.Coverage(data_file=None, config_file=False, include=["embedx/*"])
    plugin = Measuring(counter, lines)
    counter.start()
    pytest.main([*PYTEST, "-k", SOME.get(Path(test_file).name, ""), test_file], plugins=[plugin])
    counter.stop()
    for path, at_all in lines_by_file(counter, "").items():
        for line in at_all:
            lines.setdefault(path, {}).setdefault(line, []).append("")
    seconds = {test: taken for test, taken in plugin.seconds.items() if test not in plugin.left_out}
    out.write_text(json.dumps([seconds, lines]))
    return 0


PYTEST = ["--rootdir", ".", "-p", "no:cacheprovider", "--basetemp", "../tmp"]


def reached(folder: Path, test_file: str, keep: Path) -> Reached:
    """What a test file reaches, from `keep` if neither it nor anything that it may depend on has changed."""
    depends = [
        *folder.glob("embedx/**/*.py"),
        *(each for each in folder.glob("tests/*.py") if not each.name.startswith("test_")),
    ]
    digest = hashlib.sha256((folder / test_file).read_bytes() + SOME.get(Path(test_file).name, "").encode())
    for each in sorted(depends):
        if each.name != Path(__file__).name:
            digest.update(each.read_bytes())
    path = keep / f"{Path(test_file).stem}-{digest.hexdigest()[:16]}.json"
    if not path.exists() and forked(lambda: measure(test_file, path), folder, 3000) != 0:
        raise RuntimeError(f"{test_file}: {(folder.parent / OUTPUT).read_text()}")
    seconds, lines = json.loads(path.read_text())
    return Reached(seconds, {file: {int(line): tests for line, tests in found.items()} for file, found in lines.items()})


def tests_of(mutant: Mutant, known: list[Reached]) -> list[str]:
    """The tests that reach the line of a mutant, the quickest first as far as there is time, but those of a file together."""
    chosen = {}
    for found in known:
        lines = found.lines.get(mutant.file, {})
        tests = {test for line in range(mutant.line_range[0], mutant.line_range[1] + 1) for test in lines.get(line, ())}
        chosen.update({test: s for test, s in found.seconds.items() if test in tests or "" in tests})
    left = MAX_SECONDS
    for test in sorted(chosen, key=chosen.get):
        left -= chosen[test]
        if left < 0:
            del chosen[test]
    by_file: dict[str, list[str]] = {}
    for test in sorted(chosen, key=chosen.get):
        by_file.setdefault(test.partition("::")[0], []).append(test)
    return [test for tests in by_file.values() for test in tests]


# ---- how it is tried


class Choosing:
    """A pytest plugin: runs these tests in this order; that one is not there any more is an error."""

    def __init__(self, tests):
        self.tests = tests

    def pytest_collection_modifyitems(self, items):
        found = {item.nodeid: item for item in items}
        items[:] = [found[test] for test in self.tests]


def run_tests(tests: list[str]) -> int:
    """pytest's exit code for these tests."""
    sys.dont_write_bytecode = True  # two mutants may have one size and one time, by which Python tells whether to compile
    return pytest.main(["-x", *PYTEST, *sorted({test.partition("::")[0] for test in tests})], plugins=[Choosing(tests)])


FAILED_ITSELF = 99
OUTPUT = "output.txt"  # of the last process


def forked(work: Callable[[], int], folder: Path, seconds: float) -> int | None:
    """The exit code of work() in a process of its own in this folder, whose package it imports; None if it takes too long."""

    def there() -> int:
        resource.setrlimit(resource.RLIMIT_CPU, (round(seconds), round(seconds) + 5))
        resource.setrlimit(resource.RLIMIT_DATA, (1 << 33, 1 << 33))
        for stream in range(3):
            os.dup2(os.open(folder.parent / OUTPUT, os.O_RDWR | os.O_CREAT | os.O_TRUNC), stream)
        os.chdir(folder)
        sys.path[:] = [str(folder), *(each for each in sys.path if Path(each or ".").resolve() != ROOT)]
        for name in [name for name in sys.modules if name.partition(".")[0] in ("tests", "embedx")]:
            del sys.modules[name]
        os.environ.update(PYTHONPATH=str(folder), EMBEDX_CACHE_DIR=str(folder.parent / "cache"))
        return int(work())

    return ended(child(there), BUSY * seconds)


def child(work: Callable[[], int]) -> int:
    """A process of a group of its own that does work() and ends with what that returns."""
    process = os.fork()
    if not process:
        code = FAILED_ITSELF
        try:
            os.setsid()
            code = work()
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    return process


def ended(process: int, seconds: float) -> int | None:
    """The exit code of a child; None if it takes too long, and is ended with what it may have started."""
    end, done = time.monotonic() + seconds, 0
    try:
        while not done and time.monotonic() < end:
            time.sleep(0.005)
            done, status = os.waitpid(process, os.WNOHANG)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)  # whoever stops this, stops it too
    if not done:
        os.waitpid(process, 0)
        return None
    code = os.waitstatus_to_exitcode(status)
    return None if code in (-signal.SIGXCPU, -signal.SIGKILL) else code


def outcome(mutant: Mutant, folder: Path, known: list[Reached]) -> str:
    """What becomes of a mutant: "killed", "timed out", "survived" or "not reached"."""
    tests = tests_of(mutant, known)
    if not tests:
        return "not reached"
    path = folder / mutant.file
    source, times = path.read_text(), (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    path.write_text(mutants(mutant.file, source, mutant.number))
    taken = sum(each.seconds[test] for each in known for test in tests if test in each.seconds)
    code = forked(lambda: run_tests(tests), folder, START_SECONDS + SLOWER * taken)
    path.write_text(source)
    os.utime(path, ns=times)
    if code == FAILED_ITSELF:
        raise RuntimeError(f"{mutant}: {(folder.parent / OUTPUT).read_text()}")
    return {0: "survived", None: "timed out"}.get(code, "killed")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--only", action="append", default=[], help="a folder, FILE or FILE:FUNCTION; may be given several times"
    )
    parser.add_argument("--sample", type=int, help="try so many, at random; all, if not given")
    parser.add_argument("--seed", type=int, default=1, help="other mutants, or in another order, with each")
    parser.add_argument("--skip", type=int, default=0, help="leave out the first so many in that order")
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after these")
    parser.add_argument("--keep", type=Path, help="a folder for what the tests reach, to be used again")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    end = time.monotonic() + 60 * args.minutes
    os.environ.update(NUMBA_DISABLE_JIT="1", OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    found = all_mutants(args.only)
    wanted = [mutant for mutant in found if not args.only or any(is_in(mutant, place) for place in args.only)]
    if not wanted:
        sys.exit(f"nothing to change in {' '.join(args.only)}")
    random.Random(args.seed).shuffle(wanted)
    wanted = wanted[args.skip :][: args.sample]
    for name in LOADED:  # here, once rather than for each mutant
        importlib.import_module(name)
    counts: dict[str, Counter] = {folder: Counter() for folder in TESTS}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "copy")
        shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns("__pycache__", ".*"))
        keep = args.keep or Path(name)
        keep.mkdir(exist_ok=True)
        known: dict[str, Reached] = {}
        for file in dict.fromkeys(file for mutant in wanted for file in test_files(folder_of(mutant))):
            if time.monotonic() > end:
                sys.exit(f"{len(known)} test files are measured, and there are more")
            began = time.monotonic()
            known[file] = reached(folder, file, keep)
            if time.monotonic() > began + 1:
                print(f"{file}: {len(known[file].seconds)} tests, {time.monotonic() - began:.0f} s", flush=True)
        for mutant in wanted:
            if time.monotonic() > end:
                break
            result = outcome(mutant, folder, [known[file] for file in test_files(folder_of(mutant)) if file in known])
            counts[folder_of(mutant)][result] += 1
            if result in ("survived", "not reached", "timed out"):
                print(f"{result}: {mutant}", flush=True)
    total = sum(counts.values(), Counter())
    for name, count in [*((name, count) for name, count in counts.items() if count), ("all", total)]:
        dead, alive = count["killed"] + count["timed out"], count["survived"]
        share = f"{100 * dead / (dead + alive):5.1f} %" if dead + alive else ""
        print(f"{name:20} {dead + alive:5} tried {dead:5} killed {count['timed out']:4} of them timed out", end=" ")
        print(f"{alive:4} survived {share}; {count['not reached']} not reached")
    sys.exit(bool(total["survived"]))


def all_mutants(only: list[str]) -> list[Mutant]:
    """All mutants of the wanted files, in order."""
    files = [path.relative_to(ROOT).as_posix() for folder in TESTS for path in sorted((ROOT / folder).glob("*.py"))]
    named = {place.partition(":")[0] for place in only}
    files = [file for file in files if not only or {file, file.rpartition("/")[0]} & named]
    return [mutant for file in files for mutant in mutants(file, (ROOT / file).read_text())]


def is_in(mutant, place):
    """Whether a mutant is in a folder, FILE or FILE:FUNCTION."""
    file, _, function = place.partition(":")
    return (mutant.file == file or mutant.file.startswith(f"{file}/")) and function in ("", mutant.function)


def folder_of(mutant):
    return mutant.file.rpartition("/")[0]


def test_files(folder: str) -> list[str]:
    patterns = [f"test_{each}.py" for each in TESTS[folder].split()]
    return sorted(f"tests/{path.name}" for path in (ROOT / "tests").glob("test_*.py") if any(map(path.match, patterns)))


if __name__ == "__main__":
    main()
