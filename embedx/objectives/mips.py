"""Maximum inner product search: a loss among the rows with the highest scores, which an index finds.

Algorithm 1 of Yen et al. 2018, "Loss Decomposition for Fast Learning in Large Output Spaces". The loss, smoothed margin or
softmax, is taken over the positives and what is found, as if there were no other rows: the others' part of it is small where
scores are large enough to tell.
"""

from embedx.objectives.retrieval import Searched, SearchSettings
from embedx.search.spec import Search


class Mips(Searched):
    name = "mips"
    title = "maximum inner product search"
    paper = "Yen et al. 2018, algorithm 1; Auvolat et al. 2015"
    formula = "margin or log-sum-exp of the rows found - z_y"
    advice = "what ldgs improves on, for comparison"
    Settings = SearchSettings

    def search(self, n_classes: int) -> Search:
        return self.searched(n_classes, blocks=1, steps=0, slack=0)
