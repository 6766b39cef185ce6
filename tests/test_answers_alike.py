"""A classifier answers alike on the command line and in Python, whichever of them trained it."""

import pytest
from sklearn.datasets import load_svmlight_file

from embedx.classification import classifier
from embedx.classification.estimator import SoftmaxClassifier
from embedx.labeled.read import read

N_CLASSES = 6


def svmlight_lines(first_id: int) -> str:
    """Rows whose class is told by one feature; a second one says nothing, and has the last id."""
    last = first_id + N_CLASSES
    rows = range(20 * N_CLASSES)
    return "".join(
        f"{k % N_CLASSES} {first_id + k % N_CLASSES}:1 {last}:{1 + k % 2}\n" for k in rows
    )


# ---- where feature ids begin


@pytest.mark.parametrize(
    ("first_id", "zero_based"), [(1, "auto"), (0, "auto"), (1, False), (1, True), (2, "auto")]
)
def test_files_of_feature_ids_mean_what_they_meant_to_load_svmlight_file(
    tmp_path, first_id, zero_based
):
    file = tmp_path / "rows.svm"
    file.write_text(svmlight_lines(first_id))
    features, labels = load_svmlight_file(file, zero_based=zero_based)
    fitted = SoftmaxClassifier(epochs=20).fit(features, labels)
    assert fitted.score(features, labels) == 1
    found = classifier.load(fitted.save(tmp_path / "model"))
    measures = found.evaluate(read(str(file), like=found.known))
    assert measures["accuracy"] == 1
    assert measures["n_unknown"] == 0
