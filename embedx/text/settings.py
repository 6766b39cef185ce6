"""Settings of text: tokenisation, the vocabulary, and the joining of collocations."""

import math

from embedx.errors import InapplicableError, Setting, SettingError
from embedx.settings import Options, Record, Settings, check_used, param, settings_of
from embedx.text.unicode_forms import FORMS

# Default thresholds by scoring: that of gensim, and half of the largest score.
PHRASE_THRESHOLDS = {"word2phrase": 10.0, "npmi": 0.5}
MAX_PASSES = 9  # of joining collocations


# The text format with a session of items per line.
SESSIONS = "sessions"


def noun_of(options: Options) -> str:
    """The noun for a token in messages: "word", "item" of sessions, or "node" of a graph."""
    if options.get("walks"):
        return "node"
    if options.get("format") == SESSIONS:
        return "item"
    return "word"


class TextSettings(Settings):
    """How text becomes tokens. Together with the sources these settings key the token cache."""

    panel = "Text"

    tokenizer: str = param(
        "whitespace",
        "how text is split into words; `whitespace`: at white space only; `words`: into runs of"
        " Unicode letters, marks, zero-width joiners and digits, so that `isn't` becomes `isn` and"
        " `t`; `none`: as"
        " `whitespace`, but keeps lists in JSON and Parquet",
        choices=("whitespace", "words", "none"),
    )
    lowercase: bool = param(False, "convert text to lower case")
    normalize: str | None = param(
        None,
        "convert text, and later the words of queries, to a Unicode normalisation form; `nfc`:"
        " letters and their marks become one character; `nfkc`: also variants of characters, such"
        " as full-width letters and ligatures",
        choices=tuple(FORMS),
    )
    format: str = param(
        "auto",
        "what files hold; `auto`: what their names and beginnings show; `text`: text, whatever"
        " their names, and where it looks like labelled data, as baskets of `12:345 12:346` do;"
        " `sessions`: the items of a session in each line, such as an order, between tabs, or"
        " between blanks in files without tabs",
        choices=("auto", "text", SESSIONS),
    )
    json_field: str | None = param(
        None,
        "JSON Lines: the field with the text: a string, or a sentence as a list of strings or whole"
        " numbers; `a.b` is the field b of the object a",
    )
    column: str | None = param(
        None,
        "CSV, TSV and Parquet: the column with the text, by name or, where the first row is no"
        " heading, number from 1",
    )
    edge_separator: str | None = param(
        None,
        "with --walks: what separates the nodes and the weight of an edge; by default what divides"
        " each of the first lines into two or three",
        choices=("tab", "comma", "semicolon", "bar", "blank"),
        has_option=False,
    )
    on_bad_record: str = param(
        "error",
        "what happens to unreadable records and records without text in JSON Lines, CSV, TSV and"
        " Parquet; `error` stops, `skip` leaves them out and counts them",
        choices=("error", "skip"),
        has_option=False,
    )
    on_bad_utf8: str = param(
        "replace",
        "what happens to invalid UTF-8; `replace` writes U+FFFD for each byte, `skip` leaves them"
        " out, `error` stops",
        choices=("replace", "skip", "error"),
        has_option=False,
    )
    vocab_memory: float | None = param(
        None,
        "memory for counting words, in gigabytes; beyond that, counts are kept on disk and merged"
        " at the end; by default a quarter of the free memory",
        above=0.0,
        at_most=1e6,
        has_option=False,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tokenizer == "none" and self.lowercase:
            as_they_are = (Setting("tokenizer", "none"), " takes them as they are")
            problem = ("changes words, and ", as_they_are)
            raise InapplicableError("lowercase", True, problem, "leave out one of them")
        if self.format == "text":
            for name in ("json_field", "column"):
                value = getattr(self, name)
                if value is not None:
                    remedy = ("leave it out, or leave out ", Setting("format", self.format))
                    raise SettingError(name, value, "text has no fields or columns", remedy)
        if self.on_bad_record == "skip" and self.json_field is None and self.column is None:
            fields = (Setting("json_field"), " or ", Setting("column"))
            raise InapplicableError("on_bad_record", None, ("applies only with ", fields))

    def record(self) -> Record:
        """The values that determine the tokens, without those that have no effect."""
        left_out = ["vocab_memory"]
        if self.edge_separator is None:
            left_out.append("edge_separator")
        if self.json_field is None and self.column is None:
            left_out.append("on_bad_record")
        if self.normalize is None:
            left_out.append("normalize")
        if self.format == "auto":
            left_out.append("format")
        return {name: value for name, value in super().record().items() if name not in left_out}


class VocabularySettings(Settings):
    """Which tokens are words of the model. Changing these does not read the text again."""

    panel = "Vocabulary"

    min_count: int = param(5, "ignore words that occur fewer times than this", at_least=1)
    max_vocab: int | None = param(
        None, "maximum size of the vocabulary; the most frequent words are kept", at_least=1
    )
    vocab: str | None = param(
        None,
        "file with the words of the vocabulary, one per line; words that are not in the text are"
        " dropped, and anything after a word, such as a count, is ignored",
        metavar="path",
    )
    sample: float = param(
        1e-4,
        "subsampling threshold t: a word of relative frequency f > t is kept with probability"
        " sqrt(t/f) + t/f; 0 keeps every word",
        at_least=0.0,
        at_most=1.0,
    )


class PhraseSettings(Settings):
    """Which collocations become single words. Changing these does not read the text again."""

    panel = "Phrases"

    phrases: int = param(
        0,
        "passes that join frequent collocations into one word, such as new_york; the second pass"
        " finds those of three and four words",
        at_least=0,
        at_most=MAX_PASSES,
    )
    phrase_scoring: str = param(
        "word2phrase",
        "score of pairs of words; `word2phrase`: (count - minimum count) / (product of the words'"
        " counts), times the number of distinct words and pairs; `npmi`: normalised pointwise"
        " mutual information, from -1 to 1",
        choices=tuple(PHRASE_THRESHOLDS),
        has_option=False,
    )
    phrase_threshold: float | None = param(
        None,
        "minimum score of a collocation; by default "
        + ", ".join(f"{value:g} for {name}" for name, value in PHRASE_THRESHOLDS.items()),
        at_most=1e9,
        at_least=-1.0,
    )
    phrase_min_count: int = param(5, "minimum count of a collocation", at_least=1, has_option=False)
    connector_words: str | None = param(
        None,
        "words that may occur inside a collocation, not at its ends, such as of,the,and",
        has_option=False,
    )
    phrase_memory: float = param(
        4.0,
        "memory for counting pairs of words, in gigabytes",
        above=0.0,
        at_most=1e6,
        has_option=False,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.phrase_scoring == "npmi":
            is_possible = -1 <= self.threshold <= 1
            limits = "from -1 to 1"
        else:
            is_possible = 0 < self.threshold < math.inf
            limits = "above 0"
        if not is_possible:
            scoring = Setting("phrase_scoring", self.phrase_scoring)
            problem = (f"must be {limits} for ", scoring)
            raise SettingError("phrase_threshold", self.threshold, problem)

    @property
    def threshold(self) -> float:
        """The threshold of the setting, or the default of the scoring."""
        if self.phrase_threshold is None:
            return PHRASE_THRESHOLDS[self.phrase_scoring]
        return self.phrase_threshold

    @property
    def connectors(self) -> tuple[str, ...]:
        """The distinct connector words."""
        return tuple(dict.fromkeys((self.connector_words or "").replace(",", " ").split()))

    def record(self) -> Record:
        """The values, with the default threshold filled in; empty if nothing is joined."""
        if not self.phrases:
            return {}
        return super().record() | {"phrase_threshold": self.threshold}


def check_word_settings(options: Options) -> None:
    """Raise `EmbedxError` for settings of phrases without --phrases, and for settings that choose
    words together with --vocab.
    """
    has_phrases = bool(options.get("phrases"))
    settings_of_phrases = [name for name in settings_of(PhraseSettings) if name != "phrases"]
    with_phrases = Setting("phrases")
    check_used(options, ((name, has_phrases, with_phrases) for name in settings_of_phrases))
    has_list = options.get("vocab") is not None
    not_listed = ("words that are not listed by ", Setting("vocab"))
    check_used(options, ((name, not has_list, not_listed) for name in ("min_count", "max_vocab")))
