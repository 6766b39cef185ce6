"""Settings of classifiers, resolved for some data."""

from embedx.classification.resolve import Problem, resolve


def resolved(settings, objective, data):
    """The settings as they are resolved where all rows are trained on."""
    return resolve(Problem(settings, objective, data, data)).settings
