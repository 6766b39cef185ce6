"""Shared by all tests: one kernel cache for the whole run, a token cache of their own, small
corpora.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

import pytest

# each core has a worker: other threads of BLAS and OpenMP would wait, at full speed
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import numba

from tests.support import tiers
from tests.support.two_topics import CARS, CATS, COMMON

# Workers and the processes that tests start share modules of Python that are compiled once: half a
# second for each process
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Tests of parts of kernels run as plain Python, started by test_parts_in_plain_python.py: compiling
# each part separately would take a minute.
collect_ignore_glob = [] if numba.config.DISABLE_JIT else ["test_*_parts.py"]


def pytest_addoption(parser):
    parser.addoption(
        "--all",
        action="store_true",
        help="run all tests, as where modules, names or marks are given; without it the quick ones",
    )
    parser.addoption(
        "--write-messages",
        action="store_true",
        help="write tests/messages.txt, the words of all messages, anew",
    )


def pytest_configure(config):
    for name, meaning in tiers.MARKS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}; runs by --all")
    names_tests = config.args_source is not pytest.Config.ArgsSource.TESTPATHS
    if names_tests or config.option.markexpr or config.option.keyword:
        config.option.all = True  # the workers of pytest-xdist are sent it


def pytest_collection_modifyitems(config, items):
    for item in items:
        for name in tiers.marks_of(item):
            item.add_marker(name)
    if not config.option.all:
        slow = [item for item in items if any(map(item.get_closest_marker, tiers.MARKS))]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in set(slow)]
    compile_first(items)


def compile_first(items):
    """Compile the largest kernels first: those of labels on the first worker of pytest-xdist, those
    of words on the middle one.

    Each worker begins with its part of the tests. Two that come to a kernel at the same time would
    both compile it.
    """
    of_task = {"labels": [], "words": [], None: []}
    for item in items:
        mark = item.get_closest_marker("compiles")
        of_task[mark and mark.args[0]].append(item)
    middle = max(len(items) // 2 - len(of_task["labels"]), 0)
    before = of_task[None][:middle]
    after = of_task[None][middle:]
    items[:] = of_task["labels"] + before + of_task["words"] + after


@pytest.fixture(scope="session", autouse=True)
def _private_token_cache(tmp_path_factory):
    """Tests never read or clear the user's encoded corpora; kernels stay where they are, so that
    they compile once.
    """
    from embedx.text import cache

    folder = tmp_path_factory.mktemp("tokens")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache, "default_folders", lambda: (folder,))
        yield


@pytest.fixture(autouse=True)
def _signals_interrupt():
    """Tests send signals, which a shell has its background commands ignore, as do commands that
    ended by one.
    """
    actions = {"SIGINT": signal.default_int_handler, "SIGTERM": signal.SIG_DFL}
    actions["SIGHUP"] = signal.SIG_DFL
    for name, action in actions.items():
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), action)


@pytest.fixture
def ends_within_a_minute():
    """A test that waits longer fails, where the system has alarms."""
    if os.name != "posix":
        yield
        return
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it waits"))
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def write(tmp_path):
    """Write a file, text or bytes, and give its name."""

    def write(content, name="train.txt"):
        (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
        return str(tmp_path / name)

    return write


@pytest.fixture
def small_text(tmp_path):
    """The file of a small text, TEXT of `cached_corpora`."""
    from tests.support.cached_corpora import TEXT

    path = tmp_path / "corpus.txt"
    path.write_text(TEXT)
    return path


@pytest.fixture
def cache_folder(tmp_path):
    """A folder for encoded texts, which is not there yet."""
    return tmp_path / "cache"


@pytest.fixture
def few_rows_are_retrieved(monkeypatch):
    """A share of a few dozen rows is that share, however few they are."""
    from embedx.samplers import search

    monkeypatch.setattr(search, "MIN_ROWS", 1)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder to work in, with a cache of its own for tokens; kernels are shared with the other
    tests.
    """
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def workdir(tmp_path, monkeypatch):
    """An empty working directory, in which the user's configuration and data folders are too."""
    monkeypatch.chdir(tmp_path)
    for kind in ("config", "data"):
        monkeypatch.setenv(f"XDG_{kind.upper()}_HOME", str(tmp_path / kind))
    return tmp_path


@pytest.fixture(scope="module")
def driver():
    """A browser without a screen."""
    from tests.support.browser import browser

    with browser() as driver:
        yield driver


@pytest.fixture(scope="session")
def two_topics(tmp_path_factory) -> Path:
    """A corpus of 4,000 sentences, each about cats or about cars, so that what ought to be near is
    known.
    """
    rng = random.Random(0)
    path = tmp_path_factory.mktemp("corpus") / "two-topics.txt"
    with open(path, "w") as out:
        for _ in range(4000):
            topic = rng.choice((CATS, CARS))
            out.write(
                " ".join(rng.choice(topic + COMMON) for _ in range(rng.randint(4, 20))) + "\n"
            )
    return path


@pytest.fixture(scope="session")
def start_folder(tmp_path_factory):
    """Finds the folder of a model that was trained on the text of `continued_training`, by
    objective.
    """
    import embedx
    from tests.support.continued_training import FEW, TEXT

    folders = {}
    where = tmp_path_factory.mktemp("models")

    def find(objective="ns"):
        if objective not in folders:
            fitted = embedx.SkipGram(objective=objective, **FEW).fit(TEXT)
            folders[objective] = fitted.save(where / objective)
        return folders[objective]

    return find


@pytest.fixture(scope="session")
def digit_arrays():
    """600 pictures of digits with their labels, and 200 to test on: X, y, X, y."""
    from embedx.labeled.digits import digits

    training, test = digits(600, 200)
    return training.features, training.labels.ids, test.features, test.labels.ids


@pytest.fixture
def stop_after(monkeypatch):
    """Presses Ctrl-C in the runs that follow, or with None does not, after so many chunks."""
    from embedx.runtime.progress import Silent
    from embedx.training import trainer

    original = trainer._Training._take_chunk

    def taking_at_most(n):
        def take(self):
            if self.next_chunk >= n and not self.is_stopped:
                os.kill(os.getpid(), signal.SIGINT)
                while not self.is_stopped:
                    time.sleep(0.001)
            return original(self)

        return take

    def stop(n):
        # seconds until a signal that another thread caught is noticed
        monkeypatch.setattr(Silent, "interval", 0.05)
        take = original if n is None else taking_at_most(n)
        monkeypatch.setattr(trainer._Training, "_take_chunk", take)

    return stop


class RequestedError(Exception):
    """Ends a command where the library would begin."""


@pytest.fixture
def requested(monkeypatch):
    """What `embedx WORDS...` asks the library for: (objective, options)."""
    from embedx.cli import training_runs
    from embedx.cli.app import application

    requests = []

    def run(request):
        requests.append((request.objective, request.options))
        raise RequestedError

    monkeypatch.setattr(training_runs, "train_and_print", run)

    def ask(*words):
        with pytest.raises(RequestedError):
            application(words)(list(words), standalone_mode=False)
        return requests.pop()

    return ask
