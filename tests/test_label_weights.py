"""Which weights and which objective are the default for data, what excludes sparse weights, and
which files depend on the weights.
"""

import json
import re
from pathlib import Path

import pytest
from scipy.sparse import csr_matrix

import embedx
from embedx import objectives
from embedx.classification import label_weights
from embedx.classification.objective_choice import default_objective
from embedx.classification.settings import ClassifySettings
from embedx.errors import Setting, SettingError
from embedx.labeled.data import Labeled
from tests.support.commands import run_command, words_of
from tests.support.label_data import ova, settings, topics, write_xc
from tests.support.label_settings import resolved
from tests.support.label_training import train
from tests.support.notes import Notes
from tests.support.refusals import refused

DECIDES_BY_WEIGHTS = re.compile(
    r"settings\.weights|label_weights import|\b(DENSE|SPARSE|TREE)\b|\"weights\": \"|"
    r"Setting(Error)?\(\"weights\"|has_sparse_weights|has_label_tree|LabelwiseTraining|LabelTree|tree_levels|_OF_TREE"
)


def test_a_docstring_lists_the_files_that_depend_on_the_weights_of_labels():
    root = Path(embedx.__file__).parent
    paths = [*root.glob("classification/*.py")]
    for folder in ("comparison", "distributed", "tasks", "report", "cli"):
        paths += root.glob(f"{folder}/*.py")
    names = {
        path.relative_to(root).as_posix().removeprefix("classification/")
        for path in paths
        if DECIDES_BY_WEIGHTS.search(path.read_text("utf-8"))
    }
    documented = set(re.findall(r"[\w/]+\.py", str(label_weights.__doc__)))
    assert names - {"label_weights.py"} == documented


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"hidden": 5}, Setting("hidden")),
        ({"labels": "one"}, Setting("labels")),
        ({"max_norm": 1.0}, Setting("max_norm")),
        ({"time_budget": 3.0}, Setting("epochs")),
        ({"schedule": "inverse"}, Setting("schedule", "linear")),
        ({"sampler": "uniform"}, Setting("sampler", "all")),
        ({"optimizer": "lbfgs"}, Setting("optimizer")),
        ({"propensity": 0.5, "weights": "dense"}, Setting("objective", "ova")),
    ],
)
@pytest.mark.parametrize("weights", ["sparse", "tree"])
def test_settings_that_exclude_sparse_weights_are_refused(weights, options, named):
    """The message names the setting that is in the way."""
    if weights == "sparse" and "sampler" in options:
        # sampled objectives can have sparse weights: see test_sparse_rows
        options = options | {"optimizer": "dcd"}
    settings = ClassifySettings(**{"weights": weights, **options})
    with pytest.raises(SettingError) as caught:
        resolved(settings, ova(), topics())
    assert named in caught.value.problem


@pytest.mark.parametrize(
    ("data", "options", "chosen"),
    [
        (topics(), {}, ("ova", {"loss": "squared-hinge"})),
        (topics(several=False), {"time_budget": 3.0}, ("softmax", {})),
        (topics(n_labels=1200, several=False), {}, ("ova", {"loss": "squared-hinge"})),
        (topics(), {"hidden": 10}, ("softmax", {})),
        (topics(), {"labels": "first"}, ("ova", {"loss": "squared-hinge"})),
        (topics(), {"pretrained": "v.vec"}, ("softmax", {})),
        (topics(), {"sampler": "uniform"}, ("softmax", {})),
    ],
)
def test_the_default_objective_depends_on_the_data(data, options, chosen):
    assert default_objective(data, options) == chosen
    dense = Labeled(data.features.toarray(), data.labels, data.n_labels)
    assert default_objective(dense, options) == ("softmax", {})


@pytest.mark.parametrize(
    ("n_labels", "n_features", "options", "weights"),
    [
        (90, 200, {}, "sparse"),
        (90, 200, {"batch_size": 50}, "dense"),
        (90, 200, {"optimizer": "dcd"}, "sparse"),
        (4_000, 5_000, {}, "sparse"),
        (4_000, 5_000, {"propensity": 0.5, "validation": "0.1"}, "sparse"),
        (4_000, 5_000, {"validation": "0.1"}, "sparse"),
        (4_000, 5_000, {"validation": "0.1", "patience": 2}, "dense"),
        (4_000, 5_000, {"weights": "dense"}, "dense"),
        (200_000_000, 5_000, {}, "tree"),
        (200_000_000, 5_000, {"hidden": 10}, "dense"),
    ],
)
def test_the_default_storage_of_weights_depends_on_their_number(
    n_labels, n_features, options, weights
):
    data = topics()
    features = csr_matrix(
        (data.features.data, data.features.indices, data.features.indptr), (len(data), n_features)
    )
    chosen = resolved(ClassifySettings(**options), ova(), Labeled(features, data.labels, n_labels))
    assert chosen.weights == weights
    assert chosen.optimizer == ("adagrad" if weights == "dense" else "dcd")


def test_a_command_without_an_objective_names_the_one_that_it_takes(tmp_path):
    data = topics(n=80)
    write_xc(
        tmp_path / "train.txt",
        data.features,
        [data.labels[i] for i in range(len(data))],
        data.n_labels,
    )
    typed = words_of("classify train.txt --weights tree --set leaf-size=8 --json --test train.txt")
    result = json.loads(run_command(tmp_path, *typed).stdout)
    assert result["objective"] == "ova"
    assert result["settings"]["loss"] == "squared-hinge"
    assert result["test"]["p@1"] > 0.7
    assert (tmp_path / "train.ova.embedx").is_dir()


@pytest.mark.parametrize("weights", ["sparse", "tree", "dense"])
def test_sparse_weights_on_negative_features_are_warned_of(weights):
    progress = Notes()
    for sign in (1, -1):
        data = topics(n=60, n_labels=40)
        data.features.data[::7] *= sign
        train(data, ova(), settings(weights=weights, epochs=1), progress=progress)
        is_warned = any(
            note.startswith(f"warning: --weights {weights} keeps") for note in progress.notes
        )
        assert is_warned == (sign < 0 and weights != "dense")


def test_sparse_weights_need_a_loss_that_is_a_sum_over_labels_and_sparse_features():
    softmax = objectives.find("softmax")
    data = topics()
    dense = Labeled(data.features.toarray(), data.labels, data.n_labels)
    for objective, rows, quoted in (
        (softmax(softmax.Settings()), data, "softmax"),
        (ova(), dense, "sparse features"),
    ):
        with refused("weights", value="tree", quoting=quoted):
            resolved(ClassifySettings(weights="tree"), objective, rows)
