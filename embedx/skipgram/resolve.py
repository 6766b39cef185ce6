"""Resolve the settings of word vectors that depend on the text.

`configure` (configuration.py) resolves the others before the text is read. `resolve_settings` is
called once, after the text is counted; then every setting has a value. Each of its RULES chooses
settings; the docstring says why.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import NamedTuple

from numpy import ndarray

from embedx.engine.blocks import SCORE_PADDING
from embedx.engine.encoders import pairs_of_centre
from embedx.errors import Setting, Text
from embedx.objectives.contract import Objective
from embedx.runtime.cores import usable_cores
from embedx.runtime.progress import Progress
from embedx.samplers.contract import Sampler
from embedx.settings import Record
from embedx.skipgram.configuration import Configuration
from embedx.skipgram.defaults import default_rate
from embedx.skipgram.sampler_choice import retrieves
from embedx.skipgram.settings import LARGE_TEXT, MAX_DRAWS, SkipGramSettings

# For losses that are sums over pairs: pairs per drawn negative beyond MIN_DRAWS, which replaces the
# objective's `pairs_per_draw`.
MIN_DRAWS = 32
MAX_PAIRS_PER_DRAW = 20
# Maximum number of pairs in a block for the row of the most frequent word. It matters for
# vocabularies of some dozen words, each of which is many times in a block.
MAX_PAIRS_PER_ROW = 30
# Warn of a learning rate above the default by this factor, or below it.
FAR_RATE = 30


class CountedText(NamedTuple):
    """Facts of the text that the rules use.

    n_tokens   number of tokens that are words of the vocabulary
    kept       int64 (n_words,): how often each word is expected to survive subsampling
    n_context  context words of a centre, on average
    sampler    prepared for the counts
    """

    n_tokens: int
    kept: ndarray
    n_context: float
    sampler: Sampler


class ResolvedSettings(NamedTuple):
    """The resolved settings.

    origins  reasons of settings that were chosen, by name; also of those chosen before the text was
             read
    """

    settings: SkipGramSettings
    origins: dict[str, str]


def resolve_settings(config: Configuration, text: CountedText) -> ResolvedSettings:
    """The settings for this text on this machine, with every open one chosen."""
    settings = config.settings
    if config.collapsed is not None:
        threads = settings.threads or usable_cores()
        return ResolvedSettings(dataclasses.replace(settings, threads=threads), config.origins)
    origins = dict(config.origins)
    for rule in RULES:
        choice = rule(settings, config, text)
        if choice is not None:
            settings = dataclasses.replace(settings, **choice.values)
            origins |= dict.fromkeys(choice.values, choice.reason)
    return ResolvedSettings(settings, origins)


# ---- rules


class Choice(NamedTuple):
    """The settings that a rule chooses, by name, and the reason that the user is told."""

    values: Record
    reason: str


def choose_for_large_text(
    settings: SkipGramSettings, config: Configuration, text: CountedText
) -> Choice | None:
    """Large texts have defaults of their own, unless an option decides these."""
    if not config.is_sized_by_text or text.n_tokens < LARGE_TEXT:
        return None
    return Choice(dict(config.objective.large_text_defaults), f"{text.n_tokens:,} tokens")


def choose_learning_rate(
    settings: SkipGramSettings, config: Configuration, text: CountedText
) -> Choice | None:
    """Each optimizer has its own default learning rate."""
    if settings.learning_rate is not None:
        return None
    rate = default_rate(settings.optimizer, config.kind)
    return Choice({"learning_rate": rate}, f"optimizer {settings.optimizer}")


def choose_block_size(
    settings: SkipGramSettings, config: Configuration, text: CountedText
) -> Choice | None:
    """In a large block, a word of a small vocabulary would have too many pairs."""
    block_size = largest_block(settings, config.objective, text)
    if block_size >= settings.block_size:
        return None
    return Choice({"block_size": block_size}, f"{len(text.kept):,} {config.noun}s")


def choose_draws(
    settings: SkipGramSettings, config: Configuration, text: CountedText
) -> Choice | None:
    """The centres of a block share its negatives."""
    draws = default_draws(settings, config.objective, text)
    if settings.draws is not None or draws is None:
        return None
    return Choice({"draws": draws}, f"blocks of {settings.block_size} centres")


def choose_threads(
    settings: SkipGramSettings, config: Configuration, text: CountedText
) -> Choice | None:
    """Several threads update the same rows in any order, so that deterministic training has one."""
    if settings.deterministic:
        return Choice({"threads": 1}, "deterministic")
    if settings.threads is not None:
        return None
    return Choice({"threads": usable_cores()}, "usable cores")


Rule = Callable[[SkipGramSettings, Configuration, CountedText], Choice | None]
# Later rules use what earlier ones chose: the learning rate is that of the optimizer, and draws are
# for a block of the chosen size.
RULES: tuple[Rule, ...] = (
    choose_for_large_text,
    choose_learning_rate,
    choose_block_size,
    choose_draws,
    choose_threads,
)


# ---- blocks and their draws


def negatives_of_pair(settings: SkipGramSettings, objective: Objective, sampler: Sampler) -> int:
    """Number of negatives drawn for a pair; 0 if none are drawn."""
    is_drawn = sampler.candidates == "drawn" and not is_made_for_search(settings, objective)
    return objective.negatives if is_drawn else 0


def is_made_for_search(settings: SkipGramSettings, objective: Objective) -> bool:
    """Whether a search finds the candidates and the objective is made for one."""
    return retrieves(settings) and "retrieved" in objective.candidates


def largest_block(settings: SkipGramSettings, objective: Objective, text: CountedText) -> int:
    """The block size at which the likeliest row gets at most MAX_PAIRS_PER_ROW pairs."""
    n_negatives = negatives_of_pair(settings, objective, text.sampler)
    likeliest = float(text.kept.max() / text.kept.sum())
    if n_negatives:
        likeliest = max(likeliest, float(text.sampler.noise.max()))
    if text.sampler.candidates == "path":  # the root is on every path
        likeliest = 1.0
    n_pairs = pairs_of_centre(settings.architecture, text.n_context) * (1 + n_negatives)
    if n_pairs == 0:
        return settings.block_size
    return min(settings.block_size, max(1, int(MAX_PAIRS_PER_ROW / (n_pairs * likeliest))))


def default_draws(
    settings: SkipGramSettings, objective: Objective, text: CountedText
) -> int | None:
    """The negatives drawn for a block, which its centres share: enough to keep each update small;
    None if none are drawn. With a search they are drawn during warm-up.
    """
    if is_made_for_search(settings, objective):
        return min(objective.negatives, MAX_DRAWS) or None
    n_negatives = negatives_of_pair(settings, objective, text.sampler)
    n_pairs = pairs_of_centre(settings.architecture, text.n_context)
    n_negatives_of_block = n_negatives * settings.block_size * n_pairs
    joins_pairs = objective.traits.merges_pairs or objective.traits.pairs_as_set
    draws = max(n_negatives, math.ceil(n_negatives_of_block / objective.pairs_per_draw))
    if objective.positives == "summed" and draws > MIN_DRAWS:
        draws = max(MIN_DRAWS, math.ceil(n_negatives_of_block / MAX_PAIRS_PER_DRAW))
    draws = min(draws, MAX_DRAWS)
    if objective.positives == "single" and not joins_pairs:
        draws = fitting_draws(draws)
    return draws or None


def fitting_draws(draws: int) -> int:
    """The draws, or one fewer if draws and positive would need another SCORE_PADDING of scores."""
    return draws - 1 if draws > 0 and draws % SCORE_PADDING == 0 else draws


# ---- warnings


def warn_of_rate(config: Configuration, progress: Progress) -> None:
    """Warn of a learning rate that is far from the default: it may be meant for another
    optimizer.

    config  not resolved: a rate that is None is chosen by the size of the text
    """
    settings = config.settings
    if settings.learning_rate is None:
        return
    rate = settings.learning_rate
    usual = _rate_by_default(config)
    if usual / FAR_RATE < rate < usual * FAR_RATE:
        return
    remedy: Text = "leave it out"
    if rate < usual:
        remedy = (remedy, ", or add ", Setting("optimizer", "sgd"), " to use word2vec's rates")
    progress.warn(
        Setting("learning_rate", rate),
        f" is far from {usual:g}, the default of {settings.optimizer} here; ",
        remedy,
    )


def _rate_by_default(config: Configuration) -> float:
    """The default learning rate of the optimizer for this kind of data, unless the objective
    declares one with the optimizer.
    """
    optimizer = config.settings.optimizer
    usual = default_rate(optimizer, config.kind)
    defaults = config.objective.word_defaults
    if optimizer != defaults.get("optimizer", SkipGramSettings.optimizer):
        return usual
    return float(defaults.get("learning_rate", usual))
