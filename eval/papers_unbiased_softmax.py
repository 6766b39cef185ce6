"""Fagan & Iyengar 2018, "Unbiased scalable softmax optimization": tables 2 and 3, figures 1, 2 and
3, by the paper's protocol.

tune           the learning rate of each method, on a tenth of the data
full           each method on all the data, at that rate and at the paper's, and again with a second
               seed on the small sets
variants       what the paper, its code and we do differently, one at a time
double-sums    figure 2: U-max on both double sums
published      the same as its authors' code has it (papers_unbiased_published.py), with u from 0
               and from log K
rates          appendix G: every method at every rate
baselines      what the paper does not measure: the complementary sum of Botev et al. 2017,
               stochastic compositional gradient descent (appendix B), and A&R; tuned alike
uncapped       U-max whose steps may raise u above the draws' estimate of the normaliser, as the
               paper has it
"""

import functools

from eval import papers_unbiased_tables as tables
from eval.experiment import Experiment
from eval.papers_unbiased_jobs import (
    BASELINES,
    METHODS,
    OTHERS,
    PUBLISHED,
    SECTIONS,
    SETS,
    SHARES,
    TABULATED,
    jobs,
)
from eval.papers_unbiased_runs import measure


def called(name: str) -> str:
    """A data set in the names of tables."""
    return name.partition("-")[0]


EXPERIMENT = Experiment(
    name="papers-unbiased-softmax",
    title="Fagan & Iyengar 2018, unbiased scalable softmax optimization",
    choices={
        "section": tuple(SECTIONS),
        "data": SETS,
        "method": (*METHODS, *OTHERS, *BASELINES, *PUBLISHED),
    },
    packages=("scipy",),
    jobs=jobs,
    needs=lambda run: list(run.chosen("data")),
    measure=measure,
    tables={
        **{
            f"{called(name)}-{at}": functools.partial(tables.results, name, at)
            for name in TABULATED
            for at in ("tuned", "paper")
        },
        **{
            f"other-sets-{at}": functools.partial(tables.other_results, at)
            for at in ("tuned", "paper")
        },
        "doubled": tables.doubled,
        "relative": tables.relative,
        **{f"{called(name)}-sums": functools.partial(tables.two_sums, name) for name in SHARES},
        **{
            f"{called(name)}-published": functools.partial(tables.published_sums, name)
            for name in SHARES
        },
        **{f"{called(name)}-rates": functools.partial(tables.sensitivity, name) for name in SHARES},
        "variants": tables.varied,
        "uncapped": tables.uncapped_table,
        "baselines": tables.beside_baselines,
    },
    plots={"-epochs": tables.plot_epochs, "-rates": tables.plot_rates},
    mixed=True,
)
