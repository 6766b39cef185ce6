"""The likelihood of held-out text under word vectors: the mean of log p(y | x) over pairs, in nats.

A pair is a context word x, the input, and the centre y of its window, the target. For CBOW it is a
centre that has contexts and the mean of their vectors, one pair for each centre. Pairs are drawn as
training draws them: words outside the vocabulary are left out, the others are subsampled, each kept
centre gets a reach uniform in 1..window, and every kept word within reach of it is one of its
inputs. p is the model's own, `Objective.log_probability` of the scores of all rows:

    log_likelihood   mean of log p(y | x)
    standard_error   of that mean by groups of pairs, see `embedx.evaluation.statistics`
    temperature      the T that maximises the likelihood of the calibration pairs, which are not
                     scored, under p_k^(1/T) / Σ_j p_j^(1/T); not a number with fewer than
                     MIN_CALIBRATION_PAIRS of them
    calibrated       the mean of the log of that; not a number without a temperature
    unigram          mean log-probability of the same targets when each comes as often as it is kept
                     from the training text, without the held-out part; see
                     `embedx.text.vocabulary.trained_counts`

No window reaches into another sentence. A group is a span of the text that training held out, for
words of a page go together: by sentences or by pieces of a span the standard error would be too
small. Of any other text it is a sentence, or PIECE tokens of one that is longer.
"""

import dataclasses
import math
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy import float32, int32, ndarray
from scipy.special import logsumexp

from embedx import objectives
from embedx.engine.encoders import ENCODERS
from embedx.errors import DataError, Setting, no_such
from embedx.evaluation.labels import blocks_of_rows
from embedx.evaluation.statistics import Estimate, grouped
from embedx.evaluation.temperature import MIN_LOG_P, fit_inverse_temperature
from embedx.labeled.data import Labels
from embedx.runtime.progress import Progress, Silent
from embedx.storage.folder import task_of_model
from embedx.text.encode import Corpora, encode
from embedx.text.held_out import PIECE
from embedx.text.settings import TextSettings
from embedx.text.subsampling import WHOLE_SENTENCE
from embedx.text.tokenizer import END_OF_SENTENCE
from embedx.text.vocabulary import keep_probability, kept_counts
from embedx.vectors.model import WordVectors, load_folder
from embedx.vectors.model_folder import TASK
from embedx.vectors.probabilities import log_probability_given, trained_on

# Maximum number of pairs that are scored: the standard error is then about 0.01 nats.
PAIRS = 20_000
# Maximum number of pairs for calibration, which are at most a tenth of all, and of their
# log-probabilities: 200 MB.
CALIBRATION_PAIRS = 1_000
MAX_CALIBRATION_FLOATS = 50_000_000
# With fewer pairs no temperature is fitted.
MIN_CALIBRATION_PAIRS = 20
# Scores computed at a time: 16 MB.
BLOCK_FLOATS = 1 << 22
# The fields of `Likelihood` that are numbers.
METRICS = (
    "log_likelihood",
    "standard_error",
    "calibrated",
    "temperature",
    "unigram",
    "n_pairs",
    "n_groups",
)


# A function from inputs to log p(. | x); see `log_probability_of`.
LogProbability = Callable[[ndarray], Iterator[tuple[slice, ndarray]]]


class HeldOutPairs(NamedTuple):
    """Inputs with their targets, in text order.

    inputs   int32 (n,): context words; for CBOW (n, max contexts), those of each centre, then -1
    targets  int32 (n,): centres
    groups   int64 (n,): the group of the text that each pair is from
    """

    inputs: ndarray
    targets: ndarray
    groups: ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class Likelihood:
    """The likelihood of held-out pairs under a model; see above.

    values  float64 (n_pairs,): log p(y | x)
    groups  int64 (n_pairs,): the group of the text that each pair is from
    words   the vocabulary
    """

    log_likelihood: float
    standard_error: float
    calibrated: float
    temperature: float
    unigram: float
    n_pairs: int
    n_groups: int
    values: ndarray
    groups: ndarray
    words: list[str]

    def metrics(self) -> dict[str, float]:
        """The numbers by their names."""
        return {name: getattr(self, name) for name in METRICS}


# ---- pairs


def sample_pairs(
    words: ndarray,
    sentences: ndarray,
    keep: ndarray,
    window: int,
    seed: int,
    at_most: int = PAIRS,
    groups: ndarray | None = None,
    per_context: bool = True,
) -> HeldOutPairs:
    """The pairs of one pass of training over a text; at most `at_most`, drawn at random.

    words        int32 (n,): in text order, -1 for a word outside the vocabulary
    sentences    int64 (n,): not decreasing; windows end where this changes
    keep         float32 (n_words,): the probability of each word to be kept
    groups       int64 (n,): independent groups, for the standard error; by default the sentences
    per_context  a pair for each context of a centre, as in skip-gram, or one for all of them
    """
    rng = np.random.default_rng(seed)
    place = np.flatnonzero(words >= 0)
    place = place[rng.random(len(place)) < keep[words[place]]]
    kept = words[place]
    sentence = sentences[place]
    windows = _windows(sentence, window, rng)
    if per_context:
        centre, inputs = _pairs_of_contexts(kept, windows, at_most, rng)
    else:
        centre, inputs = _pairs_of_centres(kept, windows, at_most, rng)
    group = sentence if groups is None else groups[place]
    targets = kept[centre].astype(int32)
    return HeldOutPairs(inputs.astype(int32), targets, group[centre].astype(np.int64))


class _Windows(NamedTuple):
    """The contexts of each centre: n_before words before it, of n_contexts in all; int64 (n,)."""

    n_before: ndarray
    n_contexts: ndarray


def _windows(sentence: ndarray, window: int, rng: np.random.Generator) -> _Windows:
    """The windows of words, with a reach that is drawn as in training.

    sentence  int64 (n,): that of each word, not decreasing
    """
    n = len(sentence)
    reach = np.full(n, window)
    if window != WHOLE_SENTENCE:
        reach = rng.integers(1, window + 1, n)
    position = np.arange(n)
    first_of_sentence = np.searchsorted(sentence, sentence, "left")
    last_of_sentence = np.searchsorted(sentence, sentence, "right") - 1
    n_before = np.minimum(reach, position - first_of_sentence)
    n_after = np.minimum(reach, last_of_sentence - position)
    return _Windows(n_before, n_before + n_after)


def _context(centre: ndarray, n_before: ndarray, k: ndarray) -> ndarray:
    """The positions of the k-th contexts of centres, which are not among their contexts."""
    step = k - n_before
    return centre + step + (step >= 0)


def _pairs_of_contexts(
    kept: ndarray, windows: _Windows, at_most: int, rng: np.random.Generator
) -> tuple[ndarray, ndarray]:
    """The positions of centres, and the context words that they are paired with, both (n,)."""
    n_before, n_contexts = windows
    pair = _sample_indices(rng, int(n_contexts.sum()), at_most)
    ends = np.cumsum(n_contexts)
    centre = np.searchsorted(ends, pair, "right")
    first_pair = (ends - n_contexts)[centre]
    return centre, kept[_context(centre, n_before[centre], pair - first_pair)]


def _pairs_of_centres(
    kept: ndarray, windows: _Windows, at_most: int, rng: np.random.Generator
) -> tuple[ndarray, ndarray]:
    """The positions of centres, (n,), and all context words of each, (n, max contexts), then -1."""
    n_before, n_contexts = windows
    centre = np.flatnonzero(n_contexts)
    centre = centre[_sample_indices(rng, len(centre), at_most)]
    column = np.arange(n_contexts[centre].max(initial=0))
    context = _context(centre[:, None], n_before[centre, None], column)
    words = kept[np.minimum(context, len(kept) - 1)]
    return centre, np.where(column < n_contexts[centre, None], words, -1)


def _sample_indices(rng: np.random.Generator, n: int, at_most: int) -> ndarray:
    """At most `at_most` of the numbers 0 .. n - 1, drawn at random, ascending."""
    if n <= at_most:
        return np.arange(n)
    return np.sort(rng.choice(n, at_most, replace=False, shuffle=False))


def text_of(tokens: ndarray, remap: ndarray) -> tuple[ndarray, ndarray]:
    """The words of an encoded text, int32 (n,), and the sentence of each, int64 (n,); a sentence of
    more than PIECE tokens counts as several.

    tokens  int32: provisional ids, END_OF_SENTENCE between sentences
    remap   int32 (n_types,): the model's word of each provisional id, -1 if it has none
    """
    is_word = tokens != END_OF_SENTENCE
    sentence = np.cumsum(~is_word)[is_word]
    within = np.arange(len(sentence)) - np.searchsorted(sentence, sentence, "left")
    return remap[tokens[is_word]], np.cumsum(within % PIECE == 0)


def draw(
    words: ndarray,
    sentences: ndarray,
    vectors: WordVectors,
    seed: int = 0,
    at_most: int = PAIRS,
    groups: ndarray | None = None,
) -> tuple[HeldOutPairs, HeldOutPairs]:
    """Pairs to score, at most `at_most`, and pairs to calibrate with.

    No pair is in both. The model's own window and subsampling draw them; `words`, `sentences` and
    `groups` as for `sample_pairs`. Raises `EmbedxError` where there is no pair.
    """
    counts = trained_on(vectors)
    keep = keep_probability(counts, vectors.settings["sample"])
    window = vectors.settings["window"]
    per_context = ENCODERS[architecture_of(vectors)].PER_CONTEXT
    max_calibration = max(MIN_CALIBRATION_PAIRS, MAX_CALIBRATION_FLOATS // len(vectors))
    max_calibration = min(CALIBRATION_PAIRS, max_calibration)
    pairs = sample_pairs(
        words, sentences, keep, window, seed, at_most + max_calibration, groups, per_context
    )
    n = len(pairs.targets)
    if n == 0:
        problem = "no two words of the model side by side"
        raise DataError("the held-out text", None, problem, "give more text, of the same kind")
    n_calibration = max(min(max_calibration, n // 10), n - at_most)
    is_calibration = np.zeros(n, bool)
    rng = np.random.default_rng([seed, 1])
    is_calibration[rng.choice(n, n_calibration, replace=False)] = True
    scored = HeldOutPairs(*(array[~is_calibration] for array in pairs))
    calibration = HeldOutPairs(*(array[is_calibration] for array in pairs))
    return scored, calibration


def pairs_of(
    corpora: Corpora, vectors: WordVectors, *, seed: int = 0, progress: Progress | None = None
) -> tuple[HeldOutPairs, HeldOutPairs]:
    """Pairs to score and pairs to calibrate with, from text read with the model's settings.

    See `draw`. Raises `EmbedxError` if the text cannot be read or has no pair, or embedx did not
    train the model.
    """
    trained_on(vectors)
    text = TextSettings.from_options(vectors.settings)
    with encode(corpora, text, progress or Silent(), None, vectors.phrases) as corpus:
        row_of_word = {word: row for row, word in enumerate(vectors.words)}
        rows = (row_of_word.get(word, -1) for word in corpus.words)
        remap = np.fromiter(rows, int32, len(corpus.words))
        return draw(*text_of(corpus.tokens, remap), vectors, seed)


def architecture_of(vectors: WordVectors) -> str:
    """The encoder that the model was trained with."""
    return str(vectors.settings.get("architecture", "skipgram"))


# ---- their likelihood


def likelihoods_of(
    folders: Sequence[str], corpus: str, seed: int, progress: Progress
) -> list[Likelihood]:
    """The likelihood of the same pairs of a text under each of some models, which are folders that
    `embedx train` wrote.

    The text is read, and pairs are drawn, by the settings of the first model. Raises `EmbedxError`
    for a model that cannot be scored, or has other words than the first.
    """
    for folder in folders:
        if not os.path.exists(folder):
            raise no_such("model folder", folder)
        if task_of_model(folder) != TASK:
            problem = ("not a folder written by `embedx train`, which ", Setting("text"), " needs")
            raise DataError(folder, None, problem)
    models = [load_folder(Path(folder)) for folder in folders]
    for folder, model in zip(folders, models, strict=True):
        objectives.check_packages(folder, model.facts, model.settings)
        trained_on(model)
        check_same_words(models[0].words, model.words)
    pairs, calibration = pairs_of(corpus, models[0], seed=seed, progress=progress)
    return [evaluate(model, pairs, calibration, progress) for model in models]


def evaluate(
    vectors: WordVectors,
    pairs: HeldOutPairs,
    calibration: HeldOutPairs,
    progress: Progress | None = None,
) -> Likelihood:
    """The likelihood of `pairs`, with a temperature fitted to the pairs of `calibration`.

    With fewer than MIN_CALIBRATION_PAIRS of these, `temperature` and `calibrated` are not numbers.
    """
    progress = progress or Silent()
    log_p_of = log_probability_of(vectors)
    temperature = fitted_temperature(log_p_of, len(vectors), calibration, progress)
    values, calibrated = _log_likelihoods(log_p_of, pairs, temperature, progress)
    times_kept = kept_counts(trained_on(vectors), vectors.settings["sample"])
    return Likelihood(
        log_likelihood=float(values.mean()),
        standard_error=grouped(values, pairs.groups).item_error().value,
        calibrated=float(calibrated.mean()),
        temperature=temperature,
        unigram=float(np.log(times_kept[pairs.targets] / times_kept.sum()).mean()),
        n_pairs=len(values),
        n_groups=len(np.unique(pairs.groups)),
        values=values,
        groups=pairs.groups,
        words=vectors.words,
    )


def _log_likelihoods(
    log_p_of: LogProbability, pairs: HeldOutPairs, temperature: float, progress: Progress
) -> tuple[ndarray, ndarray]:
    """log p(y | x) of each pair, at the temperature 1 and at this one, float64 (n_pairs,)."""
    # Pairs with the same input are scored together.
    inputs, input_of_pair = np.unique(pairs.inputs, axis=0, return_inverse=True)
    order = np.argsort(input_of_pair, kind="stable")
    ends = np.searchsorted(input_of_pair[order], np.arange(len(inputs) + 1))
    n_pairs = len(input_of_pair)
    values = np.empty(n_pairs)
    calibrated = np.empty(n_pairs)
    progress.start("scoring", n_pairs, "pairs")
    for rows, log_p in log_p_of(inputs):
        block = order[ends[rows.start] : ends[rows.stop]]
        row = input_of_pair[block] - rows.start
        values[block] = log_p[row, pairs.targets[block]]
        log_normaliser = logsumexp(log_p / temperature, axis=1)
        calibrated[block] = values[block] / temperature - log_normaliser[row]
        progress.update(int(ends[rows.stop]))
    progress.finish()
    return values, calibrated


def compare(a: Likelihood, b: Likelihood) -> Estimate:
    """The mean of log p_a - log p_b over the same pairs, with its error by group.

    Raises `EmbedxError` where the models have different words, `ValueError` where the pairs differ.
    """
    check_same_words(a.words, b.words)
    if not np.array_equal(a.groups, b.groups):
        raise ValueError("the two models were scored on different pairs")
    gain = a.values - b.values
    return Estimate(float(gain.mean()), (grouped(gain, a.groups).item_error(),))


def check_same_words(a: list[str], b: list[str]) -> None:
    """Raise `EmbedxError` unless two models have the same words, in the same order."""
    if a != b:
        problem = (
            f"different words, {len(a):,} and {len(b):,} of them, so that log-likelihoods are not"
            " comparable"
        )
        min_count = Setting("min_count")
        max_vocab = Setting("max_vocab")
        remedy = ("train both on the same text with the same ", min_count, " and ", max_vocab)
        raise DataError("the two models", None, problem, remedy)


def log_probability_of(vectors: WordVectors) -> LogProbability:
    """A function from inputs to their log p(. | x), (n, n_words), a block after another: the range
    of the block's inputs, and their log-probabilities.
    """
    log_probability = log_probability_given(vectors)
    encode_inputs = ENCODERS[architecture_of(vectors)].vectors_of
    size = max(1, BLOCK_FLOATS // len(vectors))

    def log_p_of(inputs: ndarray) -> Iterator[tuple[slice, ndarray]]:
        for start in range(0, len(inputs), size):
            rows = slice(start, min(start + size, len(inputs)))
            yield rows, log_probability(encode_inputs(vectors.vectors, inputs[rows]))

    return log_p_of


def fitted_temperature(
    log_p_of: LogProbability, n_words: int, calibration: HeldOutPairs, progress: Progress
) -> float:
    """The temperature at which the pairs are likeliest; not a number with fewer than
    MIN_CALIBRATION_PAIRS.
    """
    if len(calibration.targets) < MIN_CALIBRATION_PAIRS:
        return math.nan
    inputs, row = np.unique(calibration.inputs, axis=0, return_inverse=True)
    log_p = np.empty((len(inputs), n_words), float32)
    for rows, values in log_p_of(inputs):
        np.maximum(values, MIN_LOG_P, out=log_p[rows], casting="same_kind")
    n_done = 0

    def blocks() -> Iterator[tuple[ndarray, Labels]]:
        """The pairs, as often as the fit passes over them."""
        nonlocal n_done
        for block in blocks_of_rows(len(row), log_p.shape[1]):
            yield log_p[row[block]], Labels.single(calibration.targets[block])
            n_done += len(row[block])
            progress.update(n_done)

    progress.start("fitting the temperature", None, "pairs")
    power = fit_inverse_temperature(blocks)
    progress.finish()
    return 1 / power
