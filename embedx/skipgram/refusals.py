"""Settings of word vectors that are refused, because they have no effect or cannot be."""

from embedx import objectives, optimizers, samplers
from embedx.engine.encoders import ENCODERS
from embedx.engine.settings import check_sampler
from embedx.errors import InapplicableError, Setting, SettingError, Text
from embedx.objectives.contract import Objective
from embedx.optimizers.contract import WORDS
from embedx.samplers.search import IndexSettings, Search
from embedx.settings import Options, check_used, settings_of
from embedx.skipgram.layers import objective_for_counts
from embedx.skipgram.sampler_choice import retrieves, samplers_for_words
from embedx.skipgram.settings import CollapsedSettings, SkipGramSettings

# Kinds of candidates for which a sampler draws; with a search, it does so during warm-up.
CANDIDATES_WITH_DRAWS = ("drawn", "retrieved")
# Settings that have no effect where pairs are counted; and all that are refused there.
STREAMING_SETTINGS = ("sampler_exponent", "block_size", "negatives", "warm_up", "found", "refresh")
REFUSED_WITH_COLLAPSED = (
    "start",
    *STREAMING_SETTINGS,
    "sampler",
    "architecture",
    "subwords",
    "buckets",
    "heldout_points",
    "shuffle",
)


# ---- without --collapsed


def check_effects(options: Options, settings: SkipGramSettings, objective: Objective) -> None:
    """Raise `InapplicableError` if one of the options has no effect with the settings."""
    is_drawn = samplers.SAMPLERS[str(settings.sampler)].candidates in CANDIDATES_WITH_DRAWS
    uses_negatives = is_drawn or objective.traits.weighs_negatives
    needs: list[tuple[str, bool, Text]] = [
        ("heldout_points", settings.heldout > 0, Setting("heldout")),
        ("draws", is_drawn, "a sampler that draws"),
        ("negatives", uses_negatives, "a sampler that draws"),
        ("buckets", settings.subwords is not None, Setting("subwords")),
    ]
    searches = retrieves(settings) or "retrieved" in objective.candidates
    needs += [
        (name, searches, Setting("sampler", Search.name)) for name in settings_of(IndexSettings)
    ]
    needs += [(name, False, "labels, by `embedx classify`") for name in objective.label_settings]
    needs += [(name, False, need) for name, need in objective.without_effect().items()]
    check_used(options, needs)


def check_combinations(settings: SkipGramSettings, objective: Objective) -> None:
    """Raise `SettingError` for settings that exclude each other."""
    sampler = str(settings.sampler)
    check_sampler(sampler, objective.name, tuple(samplers_for_words(objective)))
    is_retrieved = retrieves(settings)
    if settings.block_size == 0 and (
        is_retrieved or not ENCODERS[settings.architecture].PER_CONTEXT
    ):
        other = Setting("architecture", settings.architecture)
        if is_retrieved:
            other = Setting("sampler", sampler)
        raise SettingError(
            "block_size",
            0,
            ("draws candidates for each pair, which ", other, " cannot do"),
            "use 1 or more",
        )
    optimizer = optimizers.find(settings.optimizer, WORDS)
    if objective.step == "proximal" and optimizer.keeps == "per_coordinate":
        raise SettingError(
            "optimizer",
            settings.optimizer,
            (
                "has a learning rate for each coordinate, but the step of ",
                Setting("objective", objective.name),
                " needs one for each row",
            ),
            "use rowwise-adagrad, bounded-adagrad or sgd",
        )


# ---- with --collapsed


def check_not_collapsed(options: Options) -> None:
    """Raise `InapplicableError` for settings that need --collapsed."""
    unused = settings_of(CollapsedSettings)
    check_used(options, [(name, False, Setting("collapsed", True)) for name in unused])


def check_collapsed(objective: type[Objective], options: Options) -> None:
    """Raise `InapplicableError` for an objective whose pairs cannot be counted, and for settings
    that do not apply where they are.
    """
    counting = objective_for_counts(objective, options)
    if not collapses(counting):
        takers = [
            other
            for other, kind in objectives.OBJECTIVES.items()
            if collapses(objective_for_counts(kind, {}))
        ]
        problem = ("does not apply to ", Setting("objective", objective.name))
        raise InapplicableError(
            "collapsed", True, problem, f"use it with {', '.join(takers)} and their defaults"
        )

    refused = [*REFUSED_WITH_COLLAPSED]
    if not counting.traits.has_tail:
        refused.append("draws")
    for setting in refused:
        if options.get(setting) is not None:
            collapsed = (Setting("collapsed", True), " ", Setting("objective", objective.name))
            raise InapplicableError(setting, None, ("does not apply with ", collapsed))

    search = counting.search(2)
    if search is not None and search.message_iterations > 0:
        remedy = ("leave out ", Setting("rescore", False))
        raise InapplicableError("collapsed", True, "needs exact scores of the rows found", remedy)


def collapses(objective: Objective) -> bool:
    """Whether an objective takes the counts of an input as one example and is that of eq. 9: its
    candidates are all rows, or those that a search finds, it keeps no state, and its scores are
    logarithms of probabilities.
    """
    is_stateless = objective.state_width == 0 and objective.uniforms_width == 0
    if not is_stateless or objective.step != "gradient":
        return False
    if objective.candidates == ("all",) and objective.traits.merges_pairs:
        return True
    return "retrieved" in objective.candidates and objective.traits.calibrated
