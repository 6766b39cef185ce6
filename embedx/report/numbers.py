"""Numbers as the pages of both tasks show them."""

import math
from collections.abc import Mapping
from typing import Any

from embedx.pages.plain import metric_cell

# Titles of numbers whose names in files say too little.
TITLES = {
    "n": "rows with labels",
    "n_without_labels": "rows without labels",
    "n_unknown": "rows with unknown labels only",
    "log_likelihood": "log-likelihood",
    "log_likelihood_clamped": "log-likelihood, at least -26 a row",
    "log_likelihood_standard_error": "standard error of the log-likelihood",
    "log_likelihood_tempered": "log-likelihood at this temperature",
    **{f"p@{k}": f"P@{k}" for k in (1, 3, 5)},
    **{f"ndcg@{k}": f"nDCG@{k}" for k in (1, 3, 5)},
    **{f"psp@{k}": f"PSP@{k}" for k in (1, 3, 5)},
    "f1_micro": "F1 over all labels",
    "f1_macro": "F1, mean over labels",
    "f1_samples": "F1, mean over rows",
    "calibrated": "log-likelihood at the temperature",
    "unigram": "log-likelihood by frequencies alone",
    "n_pairs": "pairs of words",
    "n_groups": "spans of text",
}


def number(value: Any) -> str:
    """A count, or a number with four decimals; a dash for what is no number."""
    if not isinstance(value, int | float) or not math.isfinite(value):
        return "–"
    return metric_cell(value)


def number_rows(title: str, values: Mapping[str, Any]) -> list[list[str]]:
    """A table of names and numbers."""
    rows = [[title, "value"]]
    for name, value in values.items():
        rows.append([TITLES.get(name) or name.replace("_", " "), number(value)])
    return rows
