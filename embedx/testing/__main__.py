"""`python -m embedx.testing NAME...`: check registered objectives and samplers."""

import sys
from collections.abc import Sequence

from embedx.errors import EmbedxError, choice
from embedx.objectives import OBJECTIVES, report_broken
from embedx.samplers import SAMPLERS
from embedx.testing import check_objective, check_sampler


def main(names: Sequence[str]) -> int:
    """Check each name, and print a line for it; 1 if one fails, 2 if one is unknown, else 0."""
    report_broken()
    failed = False
    for name in names:
        try:
            check(name)
        except EmbedxError as error:
            print(error, file=sys.stderr)
            return error.exit_code
        except AssertionError as error:
            failed = True
            print(f"{name}\tfailed\t{error}")
        else:
            print(f"{name}\tpassed")
    return int(failed)


def check(name: str) -> None:
    """Check the objective or the sampler of this name, or both."""
    for registry in (OBJECTIVES, SAMPLERS):
        registry.check_usable(name)
    if name not in OBJECTIVES and name not in SAMPLERS:
        known = (*OBJECTIVES, *SAMPLERS)
        raise EmbedxError(f"{name}: no such objective or sampler; {choice(name, known)}")
    if name in OBJECTIVES:
        check_objective(OBJECTIVES[name])
    if name in SAMPLERS:
        check_sampler(SAMPLERS[name])


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: python -m embedx.testing NAME...")
    sys.exit(main(sys.argv[1:]))
