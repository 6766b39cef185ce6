"""Small comparisons of objectives: their data, records and pages."""

import csv

import numpy as np

from embedx.comparison import ranking
from embedx.comparison.settings import CompareSettings
from embedx.comparison.text import TextData
from embedx.evaluation.statistics import Score
from tests.support.report_models import Page

MEASURES = TextData.measures


def scores(*values):
    """A score for each value, by groups that differ alike from it, so that differences have no
    error of their own.
    """
    return [Score.of_groups([value + 0.5, value - 0.5], [1, 1]) for value in values]


def run(name, seed, value, pace=1000, similarity=None, curve=(), **more):
    """The record of a run."""
    record = {"log_likelihood": scores(value)[0].record()}
    if similarity is not None:
        record["similarity"] = Score(
            similarity, np.array([similarity - 0.01, similarity + 0.01]), None, 50
        ).record()
    result = {
        "epochs": 5.0,
        "seconds": 10.0,
        "pace": pace,
        "loss": 1.5,
        "peak": 2e8,
        "compiled": False,
        "scores": record,
        "unigram": -9.0,
        "curve": [list(point) for point in curve],
    }
    return {"objective": name, "seed": seed, "ended": f"2026-01-0{seed}", "result": result | more}


def ranked(*records):
    return ranking.ranked(
        records, list(dict.fromkeys(record["objective"] for record in records)), MEASURES, "words"
    )


def small_text(corpus, folder, **settings):
    """A comparison on a text, as data and settings."""
    settings = CompareSettings(**{"epochs": 3, "seeds": 2, "threads": 1, "heldout": 0.3} | settings)
    options = {"dim": 8, "sample": 0.0}
    data = TextData([str(corpus)], options, settings, cache_dir=folder / "tokens")
    return data, settings


def assert_page_has_numbers(page, numbers):
    """Assert that a page parses, requests nothing, and has every number of the CSV."""
    cells = {cell.replace("−", "-") for cell in Page(page).cells}
    expected = {cell for row in list(csv.reader(numbers.splitlines()))[1:] for cell in row if cell}
    assert expected
    assert expected <= cells
