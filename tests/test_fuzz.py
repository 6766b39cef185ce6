"""A sample of what `python -m tests.fuzz` tries for hours."""

from collections import Counter

import pytest
from fuzz import run as fuzz
from fuzz.targets import TARGETS

CASES = 10  # of each target


@pytest.mark.slow
def test_hostile_files_are_read_or_refused_in_one_line():
    cases = list(fuzz.run(f"{target}:sample-{n}" for n in range(CASES) for target in TARGETS))
    findings = [f"{case}\n{wrong}" for case, _, wrong in cases if wrong]
    assert not findings, "\n\n".join(findings[:3])
    assert len(cases) == CASES * len(TARGETS)
    n_refused = Counter(case.partition(":")[0] for case, line, _ in cases if line)
    # neither all harmless nor all hopeless
    mixed = [0 < n_refused[target] < CASES for target in TARGETS]
    assert sum(mixed) > 0.8 * len(TARGETS)
