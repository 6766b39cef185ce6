"""Objectives in classes that the engine treats alike, by what they declare, and one of each."""

from embedx.objectives import OBJECTIVES
from embedx.samplers import SAMPLERS


def contract_class(objective):
    """What of an objective's contract decides how it is trained."""
    made = objective(objective.Settings())
    return (
        made.positives,
        made.step,
        SAMPLERS[made.samplers()[0]].candidates,
        made.traits.separable,
        made.state_width > 0,
    )


REPRESENTATIVES = list(
    {
        contract_class(objective): name for name, objective in reversed([*OBJECTIVES.items()])
    }.values()
)
