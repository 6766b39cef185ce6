"""Options of word2vec.c, gensim and fastText: other names of ours, and what to write instead of
others.
"""

import re
from collections.abc import Container, Sequence

# Theirs: ours; where there are two, the one that the command has. fastText's classifiers have a
# hidden layer of -dim.
OUR_NAMES = {
    # word2vec.c, gensim
    "size": ("dim", "hidden"),
    "vector-size": ("dim", "hidden"),
    "negative": ("negatives",),
    "ns-exponent": ("sampler-exponent",),
    "iter": ("epochs",),
    "max-final-vocab": ("max-vocab",),
    "read-vocab": ("vocab",),
    # fastText
    "dim": ("dim", "hidden"),
    "ws": ("window",),
    "neg": ("negatives",),
    "epoch": ("epochs",),
    "thread": ("threads",),
    "pretrained-vectors": ("pretrained",),
    "t": ("sample",),
}
ARCHITECTURE = "write --architecture skipgram or --architecture cbow"
RATE = (
    "a rate of plain SGD; leave it out for the default, or write --optimizer sgd --learning-rate X"
    " for `embedx train`"
)
LENGTHS = "the lengths of character n-grams are one option of `embedx train`: --subwords 3-6"
# Commands of fastText and programs of word2vec.c that there are not.
COMMANDS_INSTEAD = {
    "distance": "`embedx nn MODEL WORD` lists the nearest words; - reads them from standard input",
    "word-analogy": "`embedx analogy MODEL A B C`; - reads three words from each line",
    "compute-accuracy": "`embedx eval MODEL --analogies questions-words.txt`",
    "word2phrase": "`embedx phrases CORPUS` lists phrases; `embedx train --phrases 1` joins them",
    "quantize": (
        "`embedx export MODEL FILE.npz --dtype int8` writes small word vectors; of classifiers"
        " `--weights sparse` and `--set weight-threshold` keep few weights"
    ),
}
# Options that no command has, or only other commands: what to write.
INSTEAD = {
    # word2vec.c, gensim
    "cbow": ARCHITECTURE,
    "sg": ARCHITECTURE,
    "hs": "write --objective hs",
    "alpha": RATE,
    "min-alpha": "the learning rate falls to zero; leave it out",
    "cbow-mean": "CBOW takes the mean of the context words; leave it out",
    "workers": "write --threads",
    "classes": (
        "vectors are not clustered; leave it out, and cluster those of the output by scikit-learn's"
        " KMeans"
    ),
    # fastText
    "lr": RATE,
    "minn": LENGTHS,
    "maxn": LENGTHS,
    "word-ngrams": (
        "an option of `embedx classify`; `embedx train` joins collocations by --phrases 1"
    ),
    "min-count": "write --set min-count=N",
    "min-count-label": "every label is learned; leave it out",
    "label": "write --set label-prefix=TEXT",
    "autotune-validation": (
        "write embedx compare TRAIN --objectives softmax,ova --test FILE --tune 30%"
    ),
    "autotune-duration": "write --time-budget for `embedx compare --tune`",
    # ours, of another command
    "score": (
        "an option of `embedx classify`; `embedx compare` takes it for an objective:"
        " --objectives softmax,softmax:score=euclidean"
    ),
    "abstain": "an option of `embedx predict`; any classifier can abstain",
    "heldout": "write --text FILE to score a text; `embedx train --heldout` holds a part out",
}


SAVE_OUTPUT = "save-output"  # a flag of fastText, with a number after it in former versions
NUMBER = re.compile(r"-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")


def with_dashes(name: str) -> str:
    """An option's name as ours are written: `min-count` for `min_count` or `minCount`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|_", "-", name).lower()


def own_name(name: str, known: Container[str]) -> str:
    """The name here of an option; `known` has those of the command, without their dashes."""
    name = with_dashes(name)
    return next((ours for ours in OUR_NAMES.get(name, ()) if ours in known), name)


def long_names(words: Sequence[str], known: Container[str]) -> list[str]:
    """The words of a command line with two dashes before long names that have one, such as
    `-minCount`. Negative numbers without an option stay numbers, as in `predict model.bin FILE -1`.
    """
    end = len(words)
    if "--" in words:
        end = words.index("--")
    translated = list(words)
    for k, word in enumerate(words[:end]):
        match = re.match(r"-([A-Za-z][\w-]*)(=|$)", word)
        if match is None:
            continue
        name = match[1]
        is_short_option = len(name) == 1 and name in known
        if is_short_option:
            continue
        translation = own_name(name, known)
        is_long_name = translation in known or translation in INSTEAD
        # Otherwise it is several short options, as in -qv.
        if is_long_name or name[0] not in known:
            translated[k] = f"-{word}"
        if translation == SAVE_OUTPUT and not _is_number(words[k + 1 : k + 2]):
            translated[k] = f"--{SAVE_OUTPUT}=1"
    return _with_numbers_as_arguments(translated[:end]) + translated[end:]


def _with_numbers_as_arguments(words: list[str]) -> list[str]:
    """The words with -- before the numbers at their end, if the first of these is negative and
    not the value of an option.
    """
    start = len(words)
    while start > 0 and _is_number(words[start - 1 : start]):
        start -= 1
    if start == len(words):
        return words
    is_value = start > 0 and words[start - 1].startswith("-")
    if is_value or not any(word.startswith("-") for word in words[start:]):
        return words
    return [*words[:start], "--", *words[start:]]


def _is_number(words: Sequence[str]) -> bool:
    """Whether there is a word, and it is a number."""
    return bool(words) and NUMBER.fullmatch(words[0]) is not None
