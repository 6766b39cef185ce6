"""The objectives whose state is a distribution, each with its reference."""

import pytest
import reference_state

LAWS = pytest.mark.parametrize(
    ("name", "law"),
    [("ar-probit", reference_state.Normal), ("ar-logistic", reference_state.Logistic)],
    ids=["probit", "logistic"],
)
