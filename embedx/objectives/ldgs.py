"""Loss decomposition guided search: rows are found in blocks of columns, each searched by itself, then brought together.

Algorithm 2 of Yen et al. 2018, "Loss Decomposition for Fast Learning in Large Output Spaces". Inner products of few dimensions
are found far better than those of many, and a row that matters scores high in some block. `rescore` takes the exact scores of
all that is found, as the authors' code for skip-gram does; without, the paper's messages are passed between the blocks
(`embedx.search.messages`).
"""

import dataclasses

from embedx.objectives.retrieval import Searched, SearchSettings
from embedx.search.spec import Search
from embedx.settings import param


@dataclasses.dataclass(frozen=True)
class LdgsSettings(SearchSettings):
    blocks: int = param(8, "blocks of columns, each searched by itself", at_least=1)
    rescore: bool = param(True, "take exact scores of what is found instead of passing messages between blocks")
    slack: float = param(
        3.0,
        "with rescoring, how much further below the best score of a block, times the number of blocks, rows may lie than those "
        "that the block by itself would move: what is not quite the best in any block may be so in all",
        at_least=0.0,
    )
    iterations: int = param(1, "rounds of message passing, without rescoring", at_least=1)


class Ldgs(Searched):
    name = "ldgs"
    title = "loss decomposition guided search"
    paper = "Yen et al. 2018, algorithm 2"
    formula = "margin or log-sum-exp of the rows found - z_y"
    advice = "10^5 labels and more, dense features or a hidden layer: near the exact loss at a fraction of its time"
    Settings = LdgsSettings
    settings: LdgsSettings

    def search(self, n_classes: int) -> Search:
        own = self.settings
        if own.rescore:
            return self.searched(n_classes, own.blocks, steps=0, slack=own.slack)
        return self.searched(n_classes, own.blocks, steps=own.iterations, slack=0)
