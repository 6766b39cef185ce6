"""The command line: each command makes settings, calls the library and prints the result.

Standard output has results only, standard error everything else. Exit codes: 0; 1 our bug; 2 the
user's mistake; 3 diverged; 130, 143 and 129 interrupted by Ctrl-C, SIGTERM and a closed terminal;
141 standard output was closed.
"""

import contextlib
import errno
import gc
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from embedx.cli import data, fasttext, models, objective_list, peers, setting_options, training
from embedx.cli.commands import Command, UsageError, with_settings
from embedx.cli.help import OF_PEERS, Group
from embedx.cli.streams import OutputClosedError, close_error_stream, open_streams
from embedx.errors import DataError, EmbedxError
from embedx.runtime.cores import can_start_threads
from embedx.runtime.interrupts import SIGNALS

# Commands by section of the help.
COMMANDS: dict[str, dict[str, Callable[..., None]]] = {
    "Train": {
        "train": training.train,
        "classify": training.classify,
        "compare": training.compare,
        "resume": training.resume,
    },
    "Use a model": {
        "info": models.info,
        "reproduce": models.reproduce,
        "predict": models.predict,
        "nn": models.nearest,
        "analogy": models.analogy,
        "recommend": models.recommend,
        "vectors": models.vectors,
        "export": models.export,
    },
    "Evaluate": {
        "eval": models.evaluate,
        "report": models.report,
        "objectives": objective_list.list_objectives,
    },
    "Data": {
        "phrases": data.phrases,
        "corpus list": data.list_recipes,
        "corpus info": data.info,
        "corpus fetch": data.fetch,
        "corpus check": data.check,
        "corpus sessions": data.sessions,
        "cache list": data.cache_list,
        "cache clear": data.cache_clear,
    },
    OF_PEERS: {
        "word2vec": peers.word2vec,
        "supervised": peers.supervised,
        "test": peers.score,
        "test-label": peers.score_labels,
        "predict-prob": peers.predict_prob,
        "skipgram": fasttext.skipgram,
        "cbow": fasttext.cbow,
        "print-word-vectors": fasttext.print_word_vectors,
        "print-sentence-vectors": fasttext.print_sentence_vectors,
        "print-ngrams": fasttext.print_ngrams,
        "analogies": fasttext.analogies,
        "dump": fasttext.dump,
    },
}

# Groups of commands, with the text of their help.
COMMAND_GROUPS = {
    "corpus": "List, describe, fetch and check corpora; sessions from tables.",
    "cache": "List or delete corpora encoded by earlier runs.",
}

# The message of Python's error at a limit of processes (`ulimit -u`, pids of a container).
NO_NEW_THREAD = "can't start new thread"
MORE_THREADS = "give a smaller --threads, or raise the limit (ulimit -u, --pids-limit)"

# OpenBLAS starts a thread for each core but one, up to this many, when it is loaded, and interrupts
# the process where it cannot; OpenMP ends it. numpy, scipy and scikit-learn each have a library.
MAX_CORES_OF_LIBRARY = 64
LIBRARIES_WITH_THREADS = 3
THREADS_OF_LIBRARIES = "OMP_NUM_THREADS"

# Exit code, as for SIGPIPE.
OUTPUT_CLOSED = 128 + 13

# The signals that end a run, and the one that did.
_handled_signals: list[signal.Signals] = []
_received: list[int] = []


def main() -> None:
    """The console script."""
    open_streams()
    _listen_to_signals()
    has_no_home = os.path.expanduser("~") == "~"
    if has_no_home:
        # Importing smart_open would fail.
        os.environ["HOME"] = "/nonexistent"
    _spare_threads()
    code = _run_command(sys.argv[1:])
    if _received:
        # Another signal must not interrupt the message.
        for number in _handled_signals:
            signal.signal(number, signal.SIG_IGN)
        _print_error("embedx: interrupted")
        code = 128 + _received[0]
    close_error_stream()
    # A last collection would look at all of numba's objects, for a quarter of a second.
    gc.freeze()
    sys.exit(code)


def _listen_to_signals() -> None:
    """Have signals end the run, but for those that are ignored, as under nohup."""
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)
            _handled_signals.append(number)


def _spare_threads() -> None:
    """Have libraries start no threads where the system would not start all of them."""
    n_cores = min(os.cpu_count() or 1, MAX_CORES_OF_LIBRARY)
    if not can_start_threads(LIBRARIES_WITH_THREADS * (n_cores - 1)):
        os.environ.setdefault(THREADS_OF_LIBRARIES, "1")


def _run_command(arguments: list[str]) -> int | None:
    """Run a command, and print its error; the exit code, None where it came to its end or was
    interrupted. Raises what is our bug.
    """
    try:
        _check_working_folder()
        code: int | None = application(arguments)(prog_name="embedx", standalone_mode=False)
        sys.stdout.flush()
        return code
    except EmbedxError as error:
        from embedx.cli.spelling import spelling_of

        _print_error(f"embedx: {error.spelled(spelling_of(arguments))}")
        return error.exit_code
    except UsageError as error:
        _print_error(_usage_message(error))
        return 2
    except OutputClosedError:
        return OUTPUT_CLOSED
    except RuntimeError as error:
        if str(error) == NO_NEW_THREAD:
            _print_error(f"embedx: the system starts no more threads; {MORE_THREADS}")
            return 2
        if not _comes_from_interrupt(error):
            raise
    except (KeyboardInterrupt, typer.Abort):
        pass
    except BaseException as error:
        if not _comes_from_interrupt(error):
            raise
    return None


def _usage_message(error: UsageError) -> str:
    """What is printed for a command that there is not; the help where the command is missing."""
    message = error.format_message()
    is_help = "\n" in message
    if is_help:
        return message
    if message.endswith("?"):
        return f"embedx: {message} see --help"
    return f"embedx: {message.removesuffix('.')}; see --help"


def _check_working_folder() -> None:
    """Raise `DataError` if it is deleted, so that no relative name leads anywhere."""
    try:
        os.getcwd()
    except OSError as error:
        problem = f"cannot be used ({error.strerror or error})"
        raise DataError("the working folder", None, problem, "go to another one with cd") from error


def _comes_from_interrupt(error: BaseException | None) -> bool:
    """Whether an error was raised for an interrupt, such as by printing to a terminal that is
    closed.
    """
    if not _received:
        return False
    is_hung_up = isinstance(error, OSError) and error.errno == errno.EIO
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return is_hung_up or error is not None


def _print_error(line: str) -> None:
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr, flush=True)


def _interrupt(signal_number: int, frame: object) -> None:
    """End the run, by SIGTERM and SIGHUP as by Ctrl-C. Further signals are ignored, so that saving
    is not cut short.
    """
    _received.append(signal_number)
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def application(arguments: Sequence[str]) -> typer.Typer:
    """All commands, or the one that `arguments` name, with the options of its settings.

    The other commands would take longer to make than most commands take, and their settings need an
    import of numba.
    """
    is_completing = "_EMBEDX_COMPLETE" in os.environ
    if is_completing:
        arguments = _completed_words()
    named = _named_command(arguments)
    app = _group(
        "Word embeddings and classifiers with huge label sets, in one engine whose output layer is"
        " a flag."
    )
    app.callback()(_version_option)
    groups = {name: _group(text) for name, text in COMMAND_GROUPS.items()}
    for section, path in _listed_commands(None if is_completing else named):
        command = COMMANDS[section][path]
        settings: setting_options.OptionsByName = {}
        is_named = path == named
        if is_named and path in setting_options.SETTING_OPTIONS:
            settings = setting_options.SETTING_OPTIONS[path]()
        kind = type("SettingsCommand", (Command,), {"settings": settings})
        run = with_settings(path, command, settings, shows_options=is_named)
        group_name, _, name = path.rpartition(" ")
        if group_name:
            groups[group_name].command(name, cls=kind)(run)
        else:
            app.command(path, cls=kind, rich_help_panel=section)(run)
    for name, group in groups.items():
        app.add_typer(group, name=name, rich_help_panel="Data")
    return app


def _named_command(arguments: Sequence[str]) -> str | None:
    """The command that the first words name, such as "train" or "corpus list"; None without one."""
    for _, path in _listed_commands():
        words = path.split()
        if list(arguments[: len(words)]) == words:
            return path
    return None


def _listed_commands(only: str | None = None) -> list[tuple[str, str]]:
    """Section and name of each command, or of one."""
    return [
        (section, path)
        for section, commands in COMMANDS.items()
        for path in commands
        if only in (None, path)
    ]


def _completed_words() -> list[str]:
    """The words after `embedx` that a shell asks to complete."""
    words = os.environ.get("_TYPER_COMPLETE_ARGS") or os.environ.get("COMP_WORDS", "")
    return words.split()[1:]


def _group(text: str) -> typer.Typer:
    """A group of commands without any, with the text of its help."""
    return typer.Typer(
        cls=Group,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        help=text,
        context_settings={"help_option_names": ["--help", "-h"]},
        rich_markup_mode=None,
    )


def _print_version(wanted: bool) -> None:
    if wanted:
        from embedx.storage.description import installed_version

        print(f"embedx {installed_version()}")
        raise typer.Exit


VERSION = typer.Option(
    "--version", help="print the version", is_eager=True, callback=_print_version
)


def _version_option(version: Annotated[bool, VERSION] = False) -> None:
    pass
