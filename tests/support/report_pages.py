"""Pages of `embedx report` and `embedx compare`, to be looked at in a browser."""

import numpy as np
import pytest

from embedx.comparison import ranking
from embedx.comparison.labels import PRECISIONS
from embedx.comparison.tables import page as page_of_comparison
from embedx.report import projection
from embedx.report.report import report
from tests.support.comparison_records import ranked, run
from tests.support.report_models import NASTY, TEST, label_folder, word_folder

WORDS_ON_MAP = 50  # of 60
GRID = np.array([[k % 5 / 4, k // 5 / 9] for k in range(WORDS_ON_MAP)])


def word_page(folder):
    """The page of word vectors, whose map is the same wherever the tests run, with room for its
    labels; the model is the folder `words` beside it.
    """
    pairs = folder / "pairs.txt"
    pairs.write_text("".join(f"topic0word{k}\ttopic{k % 4}word{k + 1}\t{k}\n" for k in range(2, 8)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(projection, "project", lambda vectors, *_: GRID[: len(vectors)])
        return report(
            word_folder(folder / "words"),
            folder / "words.html",
            words=f"{NASTY},topic1word2,topic0word0",
            pairs=[pairs],
            nearest=5,
            map_words=WORDS_ON_MAP,
        )


def pages_of_labels(folder):
    """The pages of a classifier, with test rows and without."""
    test = folder / "test.txt"
    test.write_text(TEST)
    classifier = label_folder(folder / "labels")
    return (
        report(classifier, folder / "labels.html", test=str(test)),
        report(classifier, folder / "plain.html"),
    )


def pages_of_comparisons(folder):
    """The pages of two objectives compared, on text and on labelled rows."""
    points = [(1, 2.5, -8.6), (3, 7.5, -8.2), (5, 10, -8.1)]
    records = [
        run(name, seed, -8 - k / 7, curve=points)
        for k, name in enumerate(["ns", NASTY])
        for seed in (1, 2)
    ]
    of_text = folder / "compare.html"
    of_text.write_text(
        page_of_comparison(NASTY, ranked(*records), "log-likelihood", {"machine": NASTY}), "utf-8"
    )
    of_labels = folder / "compare-labels.html"
    of_labels.write_text(
        page_of_comparison("rows", ranking_of_labels(records), "validation nDCG@5", {}), "utf-8"
    )
    return of_text, of_labels


def ranking_of_labels(records):
    """A ranking of the same objectives by all measures of labelled data."""
    measures = ("ndcg@5", *PRECISIONS, "log_likelihood")
    by_label = [
        record
        | {
            "result": record["result"]
            | {"scores": dict.fromkeys(measures, record["result"]["scores"]["log_likelihood"])}
        }
        for record in records
    ]
    return ranking.ranked(by_label, ["ns", NASTY], measures, "examples")
