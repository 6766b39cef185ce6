"""Maximum inner product search: a loss over the rows with the highest scores, which are retrieved
from an index.

Algorithm 1 of Yen et al. 2018, "Loss Decomposition for Fast Learning in Large Output Spaces". The
loss, smoothed margin or softmax, is over the positives and the rows found. In the paper the scores
of other rows are 0; here these are left out, and for words, drawn rows represent them (`tail`).
"""

from embedx.objectives.contract import About
from embedx.objectives.retrieval import LOSS, RetrievalObjective, SearchSettings
from embedx.search.spec import SearchSpec


class Mips(RetrievalObjective):
    name = "mips"
    about = About(
        title="maximum inner product search",
        paper="Yen et al. 2018, algorithm 1; Auvolat et al. 2015",
        formula=LOSS,
        advice="like ldgs, with one index of whole rows, which is faster per example",
    )
    Settings = SearchSettings

    def search(self, n_classes: int) -> SearchSpec:
        return self.search_spec(n_classes, blocks=1, message_iterations=0, slack=0)
