"""The options of word2vec.c, gensim and fastText, translated into ours.

Our own names are accepted with other dashes, underscores or capitals too (`--min_count`, `--minCount`, `-dim`).
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from embedx.errors import EmbedxError

# Theirs: ours; where there are two, the one that the command has. fastText's classifiers have a hidden layer of -dim.
NAMES = {
    "--size": ("--dim", "--hidden"),  # word2vec.c, gensim before 4
    "--vector-size": ("--dim", "--hidden"),  # gensim
    "--dim": ("--dim", "--hidden"),  # fastText
    "--ws": ("--window",),  # fastText
    "--negative": ("--negatives",),  # word2vec.c, gensim
    "--neg": ("--negatives",),  # fastText
    "--ns-exponent": ("--sampler-exponent",),  # gensim
    "--iter": ("--epochs",),  # word2vec.c, gensim before 4
    "--epoch": ("--epochs",),  # fastText
    "--workers": ("--threads",),  # gensim
    "--thread": ("--threads",),  # fastText
    "--max-final-vocab": ("--max-vocab",),  # gensim
    "--read-vocab": ("--vocab",),  # word2vec.c
    "--t": ("--sample",),  # fastText
    "--alpha": ("--learning-rate",),  # word2vec.c, gensim; of plain descent
    "--lr": ("--learning-rate",),  # fastText; likewise
}
RATES = ("--alpha", "--lr")
LENGTHS = "the lengths of character n-grams are one option: type --subwords 3-6"
# Options that only say which algorithm it is: the value that is ours, and what is said of any other.
FIXED = {
    "--cbow-mean": ("1", "the mean of the context words predicts the centre, not their sum; leave it out"),  # gensim
    "--word-ngrams": ("1", "embedx has no n-grams of words; leave it out, or join collocations by --phrases 1"),  # fastText
    "--minn": ("0", LENGTHS),  # fastText
    "--maxn": ("0", LENGTHS),  # fastText
    "--min-alpha": ("0", "the learning rate falls to zero here; leave it out"),  # gensim
}
TREE = "--hs"  # word2vec.c, gensim: 1 for hierarchical softmax
ARCHITECTURES = {  # what their values mean as --architecture
    "--cbow": {"0": "skipgram", "1": "cbow"},  # word2vec.c
    "--sg": {"0": "cbow", "1": "skipgram"},  # gensim
}


def form(name: str) -> str:
    """What names have in common that differ in dashes, underscores and capitals alone."""
    return re.sub("[-_]", "", name).lower()


_NAMES = {form(name): (name, ours) for name, ours in NAMES.items()}
_FIXED = {form(name): (name, *each) for name, each in FIXED.items()}
_ARCHITECTURES = {form(name): each for name, each in ARCHITECTURES.items()}


_OWN_BESIDE = {"--workers": "--cluster"}  # options that are ours beside another one, and of other programs without it


def translated(arguments: Sequence[str], known: Mapping[str, bool]) -> list[str]:
    """The arguments of a command with its own names for options in the place of others; what is not known is left as it is.

    known  the options of the command, each with whether a value follows it

    Raises `EmbedxError` where a setting is given by two names, or a value means something that there is not.
    """
    others = {name for name, beside in _OWN_BESIDE.items() if value_of(arguments, beside) is None}
    known = {name: has_value for name, has_value in known.items() if name not in others}
    given: dict[str, tuple[str, str | None]] = {}  # our option: its name as it was typed, and its value
    found: list[tuple[str, list[str]]] = []  # our option, or nothing, and its words
    for name, value, words in _options(arguments, known):
        if name is None:
            found.append(("", words))
            continue
        if value == "":
            raise EmbedxError(f"{name} '': an empty value; give one, or leave {name} out")
        ours = _own(name, known)
        if ours is None and form(name) in _FIXED:
            _, right, why = _FIXED[form(name)]
            if _number(value) != float(right):
                raise EmbedxError(f"{name} {value}: {why}")
            continue
        if ours is None and form(name) in _ARCHITECTURES:
            meant = _ARCHITECTURES[form(name)].get(str(value))
            if meant is None:
                raise EmbedxError(f"{name} {value}: must be 0 or 1")
            ours, words = "--architecture", ["--architecture", meant]
        elif ours is None:  # it is TREE
            if value not in ("0", "1"):
                raise EmbedxError(f"{name} {value}: must be 0 or 1; 1 is --objective hs")
            if value == "0":
                continue
            ours, words = "--objective", ["--objective", "hs"]
        elif ours != name:
            words = [ours] if value is None else [ours, value]
        before = given.setdefault(ours, (name, value))[0]
        if before != name:
            raise EmbedxError(f"{before} and {name} are two names of one setting; give one of them")
        given[ours] = name, value
        found.append((ours, words))
    _check_rate(given)
    dropped = "--negatives" if _is_by_tree(given) else None
    return [word for ours, words in found if ours != dropped for word in words]


def _check_rate(given: Mapping[str, tuple[str, str | None]]) -> None:
    """Raise `EmbedxError` for a rate of plain descent where another optimiser would take it."""
    name, rate = given.get("--learning-rate", ("", None))
    if form(name) in map(form, RATES) and given.get("--optimizer", ("", None))[1] != "sgd":
        raise EmbedxError(
            f"{name} {rate}: a rate of plain descent, which is not the optimizer here; type --optimizer sgd "
            f"--learning-rate {rate}, or leave it out for the default of the objective"
        )


def _is_by_tree(given: Mapping[str, tuple[str, str | None]]) -> bool:
    """Whether a tree was asked for by TREE. Raises `EmbedxError` if negatives were as well."""
    tree, _ = given.get("--objective", ("", None))
    if form(tree) != form(TREE):
        return False
    name, negatives = given.get("--negatives", ("", "0"))
    if _number(negatives) != 0:
        raise EmbedxError(
            f"{tree} 1 with {name} {negatives}: would train by both at once, which embedx does not; leave out one"
        )
    return True


def _own(name: str, known: Mapping[str, bool]) -> str | None:
    """The command's own option that a name stands for."""
    if name in known:
        return name
    same = next((each for each in known if form(each) == form(name)), None)
    if same is None and form(name) in _NAMES:
        same = next((each for each in _NAMES[form(name)][1] if each in known), None)
    return same


def _is_tree(name: str, known: Mapping[str, bool]) -> bool:
    return form(name) == form(TREE) and name not in known and "--objective" in known


def _options(arguments: Sequence[str], known: Mapping[str, bool]) -> Iterator[tuple[str | None, str | None, list[str]]]:
    """(name, value, words as typed) of each option that has a meaning here; the name is None for all other words."""
    i = 0
    while i < len(arguments):
        word = arguments[i]
        i += 1
        if word == "--":
            yield None, None, list(arguments[i - 1 :])
            return
        name, equals, value = word.partition("=")
        is_name = re.fullmatch(r"--?[A-Za-z][\w-]*", name) is not None
        ours = _own(name, known) if is_name else None
        is_architecture = form(name) in _ARCHITECTURES and "--architecture" in known
        is_fixed = is_name and "--epochs" in known and (form(name) in _FIXED or is_architecture or _is_tree(name, known))
        if not word.startswith("-") or (ours is None and not is_fixed):
            yield None, None, [word]
        elif equals:
            yield name, value, [word]
        elif ours is not None and not known[ours]:
            yield name, None, [word]
        elif i == len(arguments):
            yield None, None, [ours or word]  # its value is missing, which the parser reports
        else:
            i += 1
            yield name, arguments[i - 1], [word, arguments[i - 1]]


def _number(text: str | None) -> float | None:
    try:
        return float(text or "")
    except ValueError:
        return None


def value_of(arguments: Sequence[str], option: str) -> str | None:
    """The value that is given to an option, the last if there are several; None if it is not."""
    found = None
    for word, following in zip(arguments, [*arguments, None][1:], strict=True):
        if word == option:
            found = following
        elif word.startswith(f"{option}="):
            found = word.partition("=")[2]
    return found
