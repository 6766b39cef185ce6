"""Notes about resolved settings that the user may not expect, before training."""

from embedx import samplers
from embedx.classification.problem import Problem
from embedx.classification.resolve import SCALING_REASONS
from embedx.classification.settings import DENSE, ClassifySettings
from embedx.errors import Setting
from embedx.optimizers.lbfgs import Lbfgs
from embedx.runtime.progress import Progress


def note_unexpected(settings: ClassifySettings, problem: Problem, progress: Progress) -> None:
    """Log what the user may not expect of the settings."""
    _note_missing_search(problem, progress)
    _note_chosen_scaling(settings, problem, progress)
    _note_unused_propensities(settings, problem, progress)
    _warn_of_lost_weights(settings, problem, progress)


def _note_missing_search(problem: Problem, progress: Progress) -> None:
    """Say so if the objective's search is replaced by scoring all labels."""
    given = problem.given
    is_open = given.sampler is None and given.optimizer != Lbfgs.name and not given.hidden
    searches = samplers.SAMPLERS[problem.objective.samplers()[0]].needs_dense_inputs
    if is_open and problem.data.is_sparse and searches:
        progress.note(
            "no search with sparse features: every label is scored; ",
            Setting("hidden", 100),
            " makes them dense",
        )


def _note_chosen_scaling(settings: ClassifySettings, problem: Problem, progress: Progress) -> None:
    """Say why a scaling was chosen."""
    if problem.given.scaling is None and settings.scaling != "none":
        progress.note(
            f"{SCALING_REASONS[str(settings.scaling)]}: ",
            Setting("scaling", settings.scaling),
            "; ",
            Setting("scaling", "none"),
            " keeps them as they are",
        )


def _note_unused_propensities(
    settings: ClassifySettings, problem: Problem, progress: Progress
) -> None:
    """Say so if parameters of propensities were given that do not change the ranking."""
    for name in ("propensity_a", "propensity_b"):
        if problem.is_given(name) and not settings.propensity:
            progress.note(
                Setting(name, getattr(problem.given, name)),
                " changes psp@k alone, because labels are not ranked by propensities: ",
                Setting("propensity", 0.0),
            )


def _warn_of_lost_weights(settings: ClassifySettings, problem: Problem, progress: Progress) -> None:
    """Warn if weights are sparse, which may lose useful ones, because features are negative."""
    weights = settings.weights
    if weights != DENSE and problem.data.features.data.min(initial=0) < 0:
        progress.warn(
            Setting("weights", weights),
            " keeps a label's weights only for the features of its own rows, which may lose"
            " useful ones where features are negative, as some here are; ",
            Setting("weights", DENSE),
            " keeps all",
        )
