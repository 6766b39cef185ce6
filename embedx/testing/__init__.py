"""Tests of the contracts, for objectives and samplers of any package.

    python -m embedx.testing hinge log-uniform       registered ones, by name

    from embedx.testing import check_objective       or in a test of your package
    def test_contract():
        check_objective(Hinge)

The tests of embedx run the same checks over its registries.
"""

import contextlib
from collections.abc import Iterator

from embedx.objectives import OBJECTIVES
from embedx.objectives.contract import Objective
from embedx.registry import Registry
from embedx.samplers import SAMPLERS
from embedx.samplers.contract import Sampler
from embedx.testing import objectives, samplers, toys

__all__ = ["check_objective", "check_sampler"]


def check_objective(objective: type[Objective]) -> None:
    """Check the contract of objectives, with every choice and switch among its settings. Raises
    `AssertionError` if it is violated.
    """
    with _registered(OBJECTIVES, objective):
        for name, variant in objectives.variants(objective).items():
            for check in objectives.CHECKS:
                with _blamed(f"{name}: {check.__name__}"):
                    check(variant)
        for train in toys.CHECKS:
            with _blamed(f"{objective.name}: {train.__name__}"):
                train(objective.name)


def check_sampler(sampler: type[Sampler]) -> None:
    """Check the contract of samplers. Raises `AssertionError` if it is violated."""
    with _registered(SAMPLERS, sampler):
        for check in samplers.CHECKS:
            for replacement in (True, False):
                with _blamed(f"{sampler.name}: {check.__name__}, replacement={replacement}"):
                    check(sampler, replacement)


@contextlib.contextmanager
def _registered(registry: Registry, tested: type) -> Iterator[None]:  # type: ignore[type-arg]
    """Register a class within the context, if it is not registered."""
    name = tested.name  # type: ignore[attr-defined]
    before = registry.get(name)
    registry[name] = tested
    try:
        yield
    finally:
        if before is None:
            del registry[name]
        else:
            registry[name] = before


@contextlib.contextmanager
def _blamed(check: str) -> Iterator[None]:
    """Add the name of the check to its error."""
    try:
        yield
    except AssertionError as error:
        raise AssertionError(f"{check}: {error}") from error
