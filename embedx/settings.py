"""Settings: each is declared once, with `param`.

The options of the command line, their help, the tables of the README, the checks of values and the record saved beside a model
are made from the fields of the dataclasses below and of each objective's own `Settings`.
"""

import contextlib
import dataclasses
import math
import numbers
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self, dataclass_transform

from embedx.errors import EmbedxError, choice

Record = dict[str, Any]  # values by name, as JSON has them: settings, facts of a run, what was found in a text
Options = Mapping[str, Any]  # such values that are only read, as those that the user gives

MOST = 2**31 - 1  # maximum of a whole number, unless its `param` says otherwise: kernels count in int32

# By default, by scoring: gensim's, and half of what a fixed expression has.
PHRASE_THRESHOLDS = {"word2phrase": 10.0, "npmi": 0.5}

MAX_PASSES = 9  # of joining collocations

MAX_THREADS = 1024  # more than any machine has use for; each has memory of its own


KINDS = {  # the type of a setting: what its values are, in messages
    bool: (bool, "yes or no"),
    int: (numbers.Integral, "a whole number"),
    float: (numbers.Real, "a number"),
    str: (str, "a text"),
}
LIMITS = {
    "at_least": (operator.ge, "at least"), "above": (operator.gt, "above"), "at_most": (operator.le, "at most")
}  # fmt: skip

FINE: set[str] = set()  # names of the fine settings of all classes


def param(
    default: Any, meaning: str, *, at_least: float | None = None, above: float | None = None, at_most: float | None = None,
    choices: Sequence[str] | None = None, parse: Callable[[str], Any] | None = None, metavar: str | None = None,
    panel: str | None = None, fine: bool | None = None,
) -> Any:  # fmt: skip
    """A dataclass field that declares a setting: default, meaning and range (inclusive unless `above`).

    parse    reads the text that was typed, where the type alone does not
    metavar  names the type of the values in the help, where Python's type does not: `path`, `duration`
    panel    the section of the help, if it is not that of the class
    fine     True: given as --set NAME=VALUE; False: has an option of its own; by default as the class says
    """
    metadata = locals()  # the arguments by name
    return dataclasses.field(default=metadata.pop("default"), metadata=metadata)


def option_name(name: str) -> str:
    """`min_count` as it is typed: `--min-count`, or `--set local-decay` for a fine setting."""
    return ("--set " if name in FINE else "--") + name.replace("_", "-")


def as_arguments(options: Options) -> list[str]:
    """Settings as words of a command line."""
    words = []
    for name, value in options.items():
        flag = option_name(name)
        if name in FINE:
            words += ["--set", f"{flag.removeprefix('--set ')}={as_typed(value) if isinstance(value, bool) else value}"]
        elif isinstance(value, bool):
            words.append(flag if value else f"--no-{flag[2:]}")
        else:
            words += [flag, str(value)]
    return words


def as_typed(value: Any) -> str:
    """A setting's value as the user would type it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def seconds(duration: str, option: str = "--time-budget") -> float:
    """`90`, `90s`, `10m`, `2h` or `1h30m` in seconds. Raises `EmbedxError`, which names the option, for anything else."""
    parts = re.fullmatch(r"(?:(\d+\.?\d*)h)?(?:(\d+\.?\d*)m)?(?:(\d+\.?\d*)s?)?", duration.strip())
    if not parts or not any(parts.groups()):
        raise EmbedxError(f"{option} {duration}: not a time; write 90s, 10m, 2h or 1h30m")
    hours, minutes, rest = (float(part or 0) for part in parts.groups())
    return 3600 * hours + 60 * minutes + rest


def fraction(text: str) -> float:
    """`0.1%` or `0.001` as a number. Raises `EmbedxError` for anything else."""
    try:
        return float(text[:-1]) / 100 if text.strip().endswith("%") else float(text)
    except ValueError:
        raise EmbedxError(f"--heldout {text}: not a fraction; write 0.1% or 0.001 (embedx eval takes a text)") from None


def check_used(given: Options, needs: Iterable[tuple[str, bool, str]]) -> None:
    """Raise `EmbedxError` if a setting was given that has no effect here.

    needs  names of settings, each with whether it has one, and with what else (`without ...`) it would
    """
    for name, is_used, what in needs:
        if given.get(name) is not None and not is_used:
            raise EmbedxError(f"{option_name(name)} applies only {'' if what.startswith('without') else 'with '}{what}")


def settings_of(group: "type[Settings]") -> list[str]:
    """The names of the settings that a class declares."""
    return [field.name for field in dataclasses.fields(group)]


@dataclass_transform(frozen_default=True)
@dataclasses.dataclass(frozen=True)
class Settings:
    """Base of every settings class, which is a frozen dataclass: checks each value against the range its `param` declares."""

    panel: ClassVar[str] = "Training"  # the section of the help
    open: ClassVar[tuple[str, ...]] = ()  # the names of settings whose values the data may still change
    fine: ClassVar[bool] = False  # whether settings are given by --set, unless their `param` says otherwise

    def __init_subclass__(cls, fine: bool | None = None) -> None:
        cls.fine = cls.fine if fine is None else fine
        for name, field in vars(cls).items():
            if isinstance(field, dataclasses.Field):
                is_fine = field.metadata["fine"]
                (FINE.add if (cls.fine if is_fine is None else is_fine) else FINE.discard)(name)
        dataclasses.dataclass(frozen=True)(cls)

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            check(field, getattr(self, field.name))

    @classmethod
    def from_options(cls, options: Record) -> Self:
        """The settings of this class among `options`; those not given keep their defaults."""
        return cls(**{f.name: options[f.name] for f in dataclasses.fields(cls) if f.name in options})

    def record(self) -> Record:
        """The values as plain JSON types, to be saved beside a model."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {name: str(v) if isinstance(v, Path) else v for name, v in values.items()}


def check(field: dataclasses.Field[Any], value: Any) -> None:
    """Raise `EmbedxError` unless `value` lies in the range that `field` declares; None is in range where it is the default."""
    if value is None and field.default is None:
        return
    kind, limits = kind_of(field), field.metadata
    is_quoted = kind is int and isinstance(value, str) and value.isdecimal()  # from Python: what is typed is read as a number
    refused, (types, words) = f"{option_name(field.name)} {repr(value) if is_quoted else _shown(value)}: must be", KINDS[kind]
    if value not in (True, False) if kind is bool else isinstance(value, bool) or not isinstance(value, types):
        raise EmbedxError(f"{refused} {words}")
    if limits["choices"] is not None and value not in limits["choices"]:
        raise EmbedxError(f"{option_name(field.name)} {value}: {choice(value, limits['choices'])}")
    bounds = limits | ({"at_most": limits["at_most"] or MOST} if kind is int else {})
    for limit, (holds, words) in LIMITS.items():
        if bounds[limit] is not None and not holds(value, bounds[limit]):
            raise EmbedxError(f"{refused} {words} {bounds[limit]}")
    if kind is float and not _is_finite(value):
        raise EmbedxError(f"{refused} a finite number")


def read_value(field: dataclasses.Field[Any], text: str) -> Any:
    """The value that was typed for a setting. Raises `EmbedxError` if it is not one."""
    kind = field.metadata["parse"] or kind_of(field)
    value: Any = text
    if kind is bool:
        value = {"yes": True, "true": True, "no": False, "false": False}.get(text.lower(), text)
    else:
        with contextlib.suppress(ValueError):  # `check` says what is wanted
            value = kind(text)
    check(field, value)
    return value


def described(field: dataclasses.Field[Any]) -> str:
    """The type and the range of a setting: `number above 0, at most 1`."""
    limits = field.metadata
    if limits["choices"]:
        return "|".join(limits["choices"])
    found = [f"{words} {limits[limit]:g}" for limit, (_, words) in LIMITS.items() if limits[limit] is not None]
    return f"{KINDS[kind_of(field)][1].removeprefix('a ')} {', '.join(found)}".strip()


def kind_of(field: dataclasses.Field[Any]) -> type:
    """The type of a setting's values; of one that may also be None, the other one."""
    return field.type if isinstance(field.type, type) else next(iter(field.type.__args__))  # type: ignore[union-attr]


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond all floats
        return False


def _shown(value: Any) -> str:
    """A value in a message of one line, whatever it is."""
    try:
        text = str(value) if isinstance(value, str | numbers.Number) else repr(value)
    except ValueError:  # Python writes no number of more than 4,300 digits
        text = "of thousands of digits"
    return text if len(text) <= 40 else f"{text[:40]}…"


class TextSettings(Settings):
    """How text becomes tokens. Together with the sources these settings key the token cache."""

    panel = "Text"

    tokenizer: str = param(
        "whitespace",
        "how text is split into words; `whitespace`: at white space only; `words`: into runs of Unicode letters, marks and "
        "digits, so that `isn't` becomes `isn` and `t`; `none`: as `whitespace`, but keeps lists in JSON and Parquet",
        choices=("whitespace", "words", "none"),
    )
    lowercase: bool = param(False, "convert text to lower case")
    json_field: str | None = param(
        None,
        "JSON Lines: the field with the text: a string, or a sentence as a list of strings or whole numbers; `a.b` is the "
        "field b of the object a",
    )
    column: str | None = param(
        None, "CSV, TSV and Parquet: the column with the text, by name or, where the first row is no heading, number from 1"
    )
    on_bad_record: str = param(
        "error",
        "what happens to unreadable records and records without text in JSON Lines, CSV, TSV and Parquet; `error` stops, "
        "`skip` leaves them out and counts them", choices=("error", "skip"),
    )  # fmt: skip
    on_bad_utf8: str = param(
        "replace",
        "what happens to invalid UTF-8; `replace` writes U+FFFD for each byte, `skip` leaves them out, `error` stops",
        choices=("replace", "skip", "error"),
    )
    vocab_memory: float | None = param(
        None,
        "memory for counting words, in gigabytes; beyond that, counts are kept on disk and merged at the end; by default a "
        "quarter of the free memory", above=0.0, at_most=1e6, fine=True,
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tokenizer == "none" and self.lowercase:
            raise EmbedxError("--lowercase changes words, and --tokenizer none takes them as they are; leave out one of them")
        if self.on_bad_record == "skip" and self.json_field is None and self.column is None:
            raise EmbedxError("--on-bad-record applies only with --json-field or --column")

    def record(self) -> Record:
        """The values that decide the tokens: not the memory for counting them, nor what is done about records of plain text."""
        has_records = self.json_field is not None or self.column is not None
        left_out = ["vocab_memory"] if has_records else ["vocab_memory", "on_bad_record"]
        return {name: value for name, value in super().record().items() if name not in left_out}


class VocabularySettings(Settings):
    """Which tokens are words of the model. Changing these does not read the text again."""

    panel = "Vocabulary"

    min_count: int = param(5, "ignore words that occur fewer times than this", at_least=1)
    max_vocab: int | None = param(None, "maximum size of the vocabulary; the most frequent words are kept", at_least=1)
    vocab: str | None = param(
        None,
        "file with the words of the vocabulary, one per line; words that are not in the text are dropped, and anything after "
        "a word, such as a count, is ignored", metavar="path",
    )  # fmt: skip
    sample: float = param(
        1e-4, "subsampling threshold t: a word of relative frequency f > t is kept with probability sqrt(t/f) + t/f; 0 "
        "keeps every word", at_least=0.0, at_most=1.0,
    )  # fmt: skip


class StartSettings(Settings):
    """The model that training continues from."""

    panel = "Continuing from a model"

    start: str | None = param(
        None, "continue training from this model folder; its words keep their vectors, new words are added", metavar="path"
    )
    freeze: bool = param(False, "with --start: train only the vectors of new words")

    def record(self) -> Record:
        """The values; none without --start."""
        return super().record() if self.start else {}


class PhraseSettings(Settings):
    """Which collocations become single words. Changing these does not read the text again."""

    panel = "Phrases"

    phrases: int = param(
        0,
        "passes that join frequent collocations into one word, such as new_york; the second pass finds those of three and four "
        "words", at_least=0, at_most=MAX_PASSES,
    )  # fmt: skip
    phrase_scoring: str = param(
        "word2phrase",
        "score of pairs of words; `word2phrase`: (count - minimum count) / (product of the words' counts), times the number of "
        "distinct words and pairs; `npmi`: normalised pointwise mutual information, from -1 to 1",
        choices=tuple(PHRASE_THRESHOLDS),
    )
    phrase_threshold: float | None = param(
        None, "minimum score of a collocation; by default "
        + ", ".join(f"{value:g} for {name}" for name, value in PHRASE_THRESHOLDS.items()), at_most=1e9, at_least=-1.0,
    )  # fmt: skip
    phrase_min_count: int = param(5, "minimum count of a collocation", at_least=1, fine=True)
    connector_words: str | None = param(
        None, "words that may occur inside a collocation, not at its ends, such as of,the,and", fine=True
    )
    phrase_memory: float = param(4.0, "memory for counting pairs of words, in gigabytes", above=0.0, at_most=1e6, fine=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        low, high = (-1, 1) if self.phrase_scoring == "npmi" else (0, math.inf)
        if not low <= self.threshold <= high or self.threshold == 0 == low:
            wanted = "from -1 to 1" if self.phrase_scoring == "npmi" else "above 0"
            raise EmbedxError(
                f"--phrase-threshold {self.threshold:g}: must be {wanted} for --phrase-scoring {self.phrase_scoring}"
            )

    @property
    def threshold(self) -> float:
        """The threshold that applies."""
        return PHRASE_THRESHOLDS[self.phrase_scoring] if self.phrase_threshold is None else self.phrase_threshold

    @property
    def connectors(self) -> tuple[str, ...]:
        """The connector words, each once."""
        return tuple(dict.fromkeys((self.connector_words or "").replace(",", " ").split()))

    def record(self) -> Record:
        """The values, with the threshold that applies; none where nothing is joined."""
        return super().record() | {"phrase_threshold": self.threshold} if self.phrases else {}


def check_word_settings(options: Options) -> None:
    """Raise `EmbedxError` for settings of phrases without --phrases, and settings that choose words beside --vocab."""
    is_listed, others = options.get("vocab") is not None, [name for name in settings_of(PhraseSettings) if name != "phrases"]
    check_used(options, ((name, bool(options.get("phrases")), "--phrases") for name in others))
    check_used(options, ((name, not is_listed, "words that are not listed by --vocab") for name in ("min_count", "max_vocab")))
