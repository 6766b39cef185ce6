"""Classifiers trained on data in memory."""

from embedx.classification.objective_choice import ClassifierConfiguration
from embedx.classification.run import ClassifierRun
from embedx.runtime.progress import SILENT
from embedx.training import life


def train(
    data,
    objective,
    settings,
    *,
    options=None,
    given_names=None,
    progress=None,
    checkpoints=None,
    **others,
):
    """A run to its end.

    options  settings by name, of which those of the sampler count
    others   passed to `ClassifierRun`
    """
    config = ClassifierConfiguration(objective, settings, options or {}, given_names)
    run = ClassifierRun(data, config, progress or SILENT, **others)
    return life.train_model(run, checkpoints)
