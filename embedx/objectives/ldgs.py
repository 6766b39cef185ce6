"""Loss decomposition guided search: candidates are retrieved in blocks of columns, each with an
index of its own.

Yen et al. 2018, "Loss Decomposition for Fast Learning in Large Output Spaces". Maximum inner
product search has a better recall in few dimensions than in many, and a row with a high score has a
high score in some block. By default (`rescore`) the loss is over the exact scores of the candidates
of all blocks, as in the authors' code for skip-gram; otherwise the blocks pass messages, algorithm
2 of the paper (`embedx.search.message_passing`). Rows that are not found are left out of the loss
(in the paper their score is 0); for words, drawn rows represent them (`tail`).
"""

from embedx.errors import Setting
from embedx.objectives.contract import About
from embedx.objectives.retrieval import LOSS, RetrievalObjective, SearchSettings
from embedx.search.spec import SearchSpec
from embedx.settings import param


class LdgsSettings(SearchSettings):
    """Settings of loss decomposition guided search."""

    blocks: int = param(
        8, "blocks of columns, each with an index of its own", at_least=1, has_option=False
    )
    rescore: bool = param(
        True,
        "compute exact scores of the candidates; without, messages are passed between the blocks,"
        " as in the paper",
        has_option=False,
    )
    slack: float = param(
        3.0,
        "with rescoring: how much is added to the gap below a block's best score (times the number"
        " of blocks) up to which rows become candidates; at 0 it is the gap that the loss of the"
        " block alone needs",
        at_least=0.0,
        has_option=False,
    )
    iterations: int = param(
        1, "iterations of message passing, without rescoring", at_least=1, has_option=False
    )


class Ldgs(RetrievalObjective):
    name = "ldgs"
    about = About(
        title="loss decomposition guided search",
        paper=(
            "Yen et al. 2018, with exact scores of the rows found; algorithm 2 is `--set"
            " rescore=no`"
        ),
        formula=LOSS,
        advice=(
            "some 10^5 labels, dense features or a hidden layer: an example takes a fraction of the"
            " exact loss's time; the time to a given accuracy gains less, or nothing"
        ),
    )
    Settings = LdgsSettings
    # In skip-gram the rows found for a word are kept by their exact scores, without messages.
    label_settings = ("rescore", "iterations")
    settings: LdgsSettings

    def without_effect(self) -> dict[str, Setting]:
        if self.settings.rescore:
            return {**super().without_effect(), "iterations": Setting("rescore", False)}
        return {**super().without_effect(), "slack": Setting("rescore", True)}

    def search(self, n_classes: int) -> SearchSpec:
        settings = self.settings
        iterations = 0 if settings.rescore else settings.iterations
        slack = settings.slack if settings.rescore else 0
        return self.search_spec(n_classes, settings.blocks, iterations, slack)
