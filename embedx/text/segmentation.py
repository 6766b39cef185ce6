"""Detects text that is not divided into words: in a script without spaces, or with punctuation
still attached to words.
"""

import re

import numpy as np

from embedx.errors import Setting, Text
from embedx.runtime.progress import Progress
from embedx.text.encoded_corpus import EncodedCorpus
from embedx.text.settings import TextSettings

# Letters of scripts that are written without spaces between words, and the mean length of tokens
# in characters above which the text is not segmented: words have 2 in Chinese and Japanese, 4 in
# Thai and Lao, 5 to 7 in Khmer and Myanmar.
LETTERS = {
    "Chinese or Japanese": (
        "\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff"
    ),
    "Thai": "\u0e00-\u0e7f",
    "Lao": "\u0e80-\u0eff",
    "Khmer": "\u1780-\u17ff",
    "Myanmar": "\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f",
}
LONGEST_MEAN = {
    "Chinese or Japanese": 5.0,
    "Thai": 11.0,
    "Lao": 11.0,
    "Khmer": 14.0,
    "Myanmar": 14.0,
}
SEGMENTERS = {
    "Chinese or Japanese": "jieba or MeCab",
    "Thai": "PyThaiNLP",
    "Lao": "LaoNLP",
    "Khmer": "khmer-nltk",
    "Myanmar": "pyidaungsu",
}
PATTERNS = {script: re.compile(f"[{letters}]") for script, letters in LETTERS.items()}
# Number of the most frequent words whose letters are counted.
MAX_TYPES = 20_000
# A text is in a script if more than this share of its characters is.
MIN_SHARE_OF_SCRIPT = 0.5

# Punctuation at the end of a word.
ATTACHED = re.compile(r"\w[.,;:!?\"')\u3001\u3002\uff0c\uff01\uff1f]+(?=\s|$)")
# Text is raw if more than this share of its words ends with punctuation: of news 0.09 do, and 0.01
# after tokenisation.
RAW_SHARE = 0.03
IN_WORDS: tuple[Text, ...] = (Setting("tokenizer", "words"), " ", Setting("lowercase", True))


def warn_if_unsegmented(corpus: EncodedCorpus, progress: Progress) -> None:
    """Warn of a text mostly without spaces between words, and name a remedy."""
    n_types = min(len(corpus.words), MAX_TYPES)
    counts = corpus.counts[:n_types].tolist()
    words = corpus.words.at(np.arange(n_types))
    n_characters = sum(len(word) * n for word, n in zip(words, counts, strict=True))
    for script, pattern in PATTERNS.items():
        n_letters = 0
        n_tokens = 0
        for word, n in zip(words, counts, strict=True):
            letters = len(pattern.findall(word))
            n_letters += letters * n
            n_tokens += n * (letters > 0)
        is_in_script = n_letters > MIN_SHARE_OF_SCRIPT * n_characters
        if is_in_script and n_letters > LONGEST_MEAN[script] * n_tokens:
            progress.warn(
                f"the text is {script} without spaces between words, so that its tokens"
                f" have {n_letters / n_tokens:.0f} letters on average; segment it first, for"
                f" example with {SEGMENTERS[script]}, or train with ",
                Setting("subwords", "1-3"),
            )
            return


def raw_share(corpus: EncodedCorpus) -> float:
    """The share of the tokens of a text that end with punctuation."""
    n_types = min(len(corpus.words), MAX_TYPES)
    counts = corpus.counts[:n_types].tolist()
    words = corpus.words.at(np.arange(n_types))
    n_attached = sum(n for word, n in zip(words, counts, strict=True) if ATTACHED.search(word))
    return n_attached / max(sum(counts), 1)


def is_raw(corpus: EncodedCorpus, settings: TextSettings) -> bool:
    """Whether a text was split at white space only, although punctuation is attached to words."""
    return settings.tokenizer == "whitespace" and raw_share(corpus) > RAW_SHARE


def note_if_raw(corpus: EncodedCorpus, settings: TextSettings, progress: Progress) -> None:
    """Note that punctuation is attached to words, and name a remedy, if it is."""
    if is_raw(corpus, settings):
        progress.note(
            f"punctuation ends {raw_share(corpus):.0%} of the tokens, and `king,` is another word"
            " than `king`: ",
            *IN_WORDS,
            " makes them one",
        )
