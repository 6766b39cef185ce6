"""Settings of classifiers, resolved for some data."""

from embedx.classification.problem import Problem
from embedx.classification.resolve import resolve_settings


def resolved(settings, objective, data, given_names=None):
    """The settings as they are resolved where all rows are trained on."""
    problem = Problem(settings, objective, data, data, given_names=given_names)
    return resolve_settings(problem).settings
