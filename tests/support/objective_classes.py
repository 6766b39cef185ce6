"""Kinds of objectives that the engine trains alike, and one objective of each."""

from embedx.objectives import OBJECTIVES
from embedx.samplers import SAMPLERS


def contract_class(objective):
    """What of an objective's contract decides how it is trained."""
    instance = objective(objective.Settings())
    return (
        instance.positives,
        instance.step,
        SAMPLERS[instance.samplers()[0]].candidates,
        instance.traits.separable,
        instance.state_width > 0,
    )


REPRESENTATIVES = list(
    {
        contract_class(objective): name for name, objective in reversed([*OBJECTIVES.items()])
    }.values()
)
