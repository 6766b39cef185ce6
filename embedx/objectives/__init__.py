"""The registry of objectives: one line each. `contract` says what an objective is, its own file what it computes."""

from embedx.errors import EmbedxError
from embedx.objectives.ar import AugmentReduce
from embedx.objectives.ar_logistic import AugmentReduceLogistic
from embedx.objectives.ar_probit import AugmentReduceProbit
from embedx.objectives.bouchard import Bouchard
from embedx.objectives.contract import Objective
from embedx.objectives.hs import HierarchicalSoftmax
from embedx.objectives.implicit import Implicit
from embedx.objectives.nce import NoiseContrastive
from embedx.objectives.ns import NegativeSampling
from embedx.objectives.ova import OneVsAll
from embedx.objectives.ove import OneVsEach
from embedx.objectives.sampled_softmax import SampledSoftmax
from embedx.objectives.sgd_double_sum import SgdDoubleSum
from embedx.objectives.softmax import Softmax
from embedx.objectives.umax import Umax

OBJECTIVES: dict[str, type[Objective]] = {
    objective.name: objective
    for objective in (
        Softmax,
        NegativeSampling,
        HierarchicalSoftmax,
        AugmentReduce,
        OneVsEach,
        Implicit,
        OneVsAll,
        NoiseContrastive,
        SampledSoftmax,
        Bouchard,
        Umax,
        SgdDoubleSum,
        AugmentReduceProbit,
        AugmentReduceLogistic,
    )
}  # fmt: skip


def find(name: str) -> type[Objective]:
    """The objective called `name`."""
    if name not in OBJECTIVES:
        raise EmbedxError(f"--objective {name}: no such objective; choose one of {', '.join(OBJECTIVES)}")
    return OBJECTIVES[name]


TABLE_HEAD = ("objective", "loss", "paper", "rows", "samplers", "when")


def table() -> list[tuple[str, ...]]:
    """All objectives, a row each, under TABLE_HEAD; "rows" is how many output rows an example with one label meets."""
    rows = {"all": "K", "path": "log K", "unigram": "1 + m", "uniform": "1 + m"}
    return [
        (name, each.formula, f"{each.title}; {each.paper}", rows[each.samplers[0]], ", ".join(each.samplers), each.advice)
        for name, each in OBJECTIVES.items()
    ]


def markdown_table() -> str:
    """The same for the README."""
    lines = [TABLE_HEAD, tuple("---" for _ in TABLE_HEAD)]
    lines += [(f"`{name}`", f"`{loss}`", *rest) for name, loss, *rest in table()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
