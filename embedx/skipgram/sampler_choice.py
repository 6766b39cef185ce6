"""The samplers that an objective takes for word vectors."""

from embedx import samplers
from embedx.objectives.contract import Objective
from embedx.samplers.search import Search
from embedx.skipgram.settings import SkipGramSettings

# The default sampler for words, unless the objective is made for a search; objectives declare their
# defaults for labels.
PREFERRED_SAMPLER = "unigram"


def samplers_for_words(objective: Objective) -> list[str]:
    """The samplers that the objective takes for word vectors, the default first."""
    taken = [name for name in objective.samplers() if not samplers.SAMPLERS[name].conditional]
    made_for = Search.name if "retrieved" in objective.candidates else None
    return sorted(taken, key=lambda name: (name != made_for, name != PREFERRED_SAMPLER))


def retrieves(settings: SkipGramSettings) -> bool:
    """Whether a search finds the candidates."""
    return samplers.SAMPLERS[str(settings.sampler)].candidates == "retrieved"
