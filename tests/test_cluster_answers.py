"""What workers send is checked before it is used, and the place that names the cluster."""

import os
from types import SimpleNamespace

import numpy as np
import pytest

from embedx.classification.labelwise import TrainedTile
from embedx.distributed import answers, connection, tiles
from embedx.distributed.answers import LostWorkerError
from embedx.distributed.parameters import STATE, Parameters, ParameterServer
from embedx.distributed.ray_backend import Workers
from embedx.engine.merging import Delta
from embedx.errors import LostClusterError, SettingError, in_python, spelled
from embedx.optimizers import update_rule
from embedx.optimizers.contract import new_table
from embedx.runtime.progress import Silent
from embedx.training import trainer
from embedx.training.schedule import Schedule
from embedx.training.state import TrainState
from embedx.training.strategy import Strategy, Tally
from tests.support.checkpoints import checkpoints_of
from tests.support.local_workers import travelled

N_ROWS = 6
DIM = 16
WIDTH = 2
float32 = np.float32
int16 = np.int16
int32 = np.int32


@pytest.fixture
def server():
    """A server of one table and of two numbers a word."""
    rule = update_rule("adagrad")
    table = new_table(N_ROWS, DIM, rule)
    state = np.zeros((N_ROWS, WIDTH))
    n_updates = np.zeros(N_ROWS, np.int64)
    rates = {"rows": np.ones(N_ROWS, float32)}
    parameter_server = ParameterServer(Parameters({"rows": table}, rule, state, n_updates, rates))
    parameter_server.remote_delta(parameter_server)  # stands for the worker
    return parameter_server


def a_delta(server, rows=(1, 4)):
    """What a worker would send: changes of two rows."""
    table = server.parameters.tables["rows"]
    n = len(rows)
    row = np.array(rows, int32)
    of_table = Delta(
        row,
        np.full((n, table.rows.shape[1]), 100, int16),
        np.ones((n, table.state.shape[1]), float32),
        np.full((n, 1), 0.01, float32),
    )
    of_words = Delta(row, np.ones((n, WIDTH)), np.full((n, 1), 3, np.int64))
    return {"rows": of_table, STATE: of_words}


def test_a_delta_of_some_rows_is_added(server):
    server.add(server, travelled(a_delta(server)))
    rows = server.parameters.tables["rows"].rows
    np.testing.assert_allclose(rows[[1, 4]], 1.0, rtol=1e-6)
    assert not rows[[0, 2, 3, 5]].any()
    assert server.parameters.n_updates.tolist() == [0, 3, 0, 0, 3, 0]


def of_table(**fields):
    return lambda delta: delta | {"rows": delta["rows"]._replace(**fields)}


def of_words(**fields):
    return lambda delta: delta | {STATE: delta[STATE]._replace(**fields)}


class Code:
    """Not an array, though it looks like one."""

    shape = (2, 16)
    dtype = np.dtype(int16)


UNUSABLE = {
    "rows of another length": of_table(values=np.ones((2, 3), int16)),
    "fewer rows than ids": of_table(values=np.ones((1, DIM), int16)),
    "too few scales": of_table(scale=np.ones((1, 1), float32)),
    "wider numbers": of_table(values=np.ones((2, DIM), np.int64)),
    "no array": of_table(values=Code()),
    "a matrix": of_table(values=np.matrix(np.ones((2, DIM), int16))),
    "no state": of_table(state=np.ones((2, 0), float32)),
    "ids out of range": of_table(row=np.array([1, N_ROWS], int32)),
    "ids below 0": of_table(row=np.array([-1, 4], int32)),
    "ids twice": of_table(row=np.array([4, 4], int32)),
    "ids of 64 bits": of_table(row=np.array([1, 4])),
    "a scale that is no number": of_table(scale=np.array([[np.nan], [1]], float32)),
    "endless state": of_table(state=np.full((2, DIM), np.inf, float32)),
    "huge changes": of_table(scale=np.array([[1e30], [1]], float32)),
    "a missing table": lambda delta: {STATE: delta[STATE]},
    "no state of words": lambda delta: {"rows": delta["rows"]},
    "a table too many": lambda delta: delta | {"other": delta["rows"]},
    "words out of range": of_words(row=np.array([1, 99], int32)),
    "words that are no numbers": of_words(values=np.full((2, WIDTH), np.nan)),
    "updates taken back": of_words(state=np.full((2, 1), -1)),
    "no dict": lambda delta: list(delta.items()),
    "a tuple": lambda delta: delta | {"rows": tuple(delta["rows"])},
}


@pytest.mark.parametrize("what", UNUSABLE)
def test_a_worker_that_sends_an_invalid_answer_is_lost_and_changes_nothing(server, what):
    with pytest.raises(LostWorkerError):
        server.add(server, UNUSABLE[what](a_delta(server)))
    assert not server.parameters.tables["rows"].rows.any()
    assert not server.parameters.n_updates.any()


@pytest.mark.parametrize(
    "answer",
    [
        None,
        (Tally(1.0, 2, 3),),
        ((1.0, 2, 3), 0.5),
        (Tally("1", 2, 3), 0.5),
        (Tally(1.0, 2, 3), float("nan")),
        (Tally(1.0, 2, 3), -1.0),
    ],
)
def test_a_range_is_answered_by_a_tally_and_seconds(answer):
    with pytest.raises(LostWorkerError):
        answers.check_trained(answer)


def test_a_tally_may_be_of_numbers_of_numpy():
    answer = Tally(np.float64(1.5), np.int64(2), np.int64(3)), 0.5
    assert answers.check_trained(answer) == (Tally(1.5, 2.0, 3), 0.5)


@pytest.mark.parametrize(
    "change",
    [
        {"ids": np.array([[0, 9], [1, 2]], int32)},
        {"ids": np.array([[0, 1]], int32)},
        {"p": np.array([[0.5, np.nan], [0.5, 0.5]], float32)},
        {"p": np.ones((2, 1), float32)},
        {"p": [[0.5, 0.5], [0.5, 0.5]]},
    ],
)
def test_predictions_are_of_the_rows_and_labels_asked_for(change):
    good = {"ids": np.array([[0, 1], [1, 2]], int32), "p": np.full((2, 2), 0.5, float32)}
    answers.check_best(tuple(good.values()), 2, 5, 3)
    with pytest.raises(LostWorkerError):
        answers.check_best(tuple((good | change).values()), 2, 5, 3)


@pytest.mark.parametrize(
    "change",
    [
        {"feature": np.array([0, 7], int32)},
        {"label": np.array([0, 2], int32)},
        {"value": np.array([1, np.inf], float32)},
        {"value": np.array([1], float32)},
        {"bias": np.zeros(3, float32)},
        {"loss": "0"},
    ],
)
def test_a_tile_has_weights_of_its_own_labels_and_features(change):
    one = np.array([0, 1], int32)
    tile = TrainedTile(one, one, np.ones(2, float32), np.zeros(2, float32), 0.5)
    tiles._check_tile(tile, 2, 7)
    with pytest.raises(LostWorkerError):
        tiles._check_tile(tile._replace(**change), 2, 7)


# ---- the address


@pytest.fixture
def noted(tmp_path, monkeypatch):
    """The file in which Ray notes the address of a cluster."""
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    file = tmp_path / "ray" / "ray_current_cluster"
    file.parent.mkdir(mode=0o755)
    file.write_text("10.0.0.1:6379")
    file.chmod(0o644)
    return file


def refused_address(cluster):
    """The error for an address, or a name of one."""
    with pytest.raises(SettingError) as error:
        connection.address_of(cluster)
    assert error.value.setting == "cluster"
    return error.value


def test_auto_is_the_cluster_that_this_user_started(noted, monkeypatch):
    assert connection.address_of("auto") == "10.0.0.1:6379"
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.2:6380")
    assert connection.address_of("auto") == "10.0.0.2:6380"
    assert connection.address_of("10.0.0.3:6379") == "10.0.0.3:6379"


def test_a_missing_cluster_is_reported_at_once(noted):
    noted.unlink()
    assert "ray start --head" in refused_address("auto").remedy


@pytest.mark.skipif(os.name != "posix", reason="each user has folders of his own")
class TestPlacesThatOthersMayWriteTo:
    @pytest.mark.parametrize("mode", [0o666, 0o664, 0o602])
    def test_a_file_that_others_can_write_names_no_cluster(self, noted, mode):
        noted.chmod(mode)
        assert str(noted) in refused_address("auto").problem

    def test_a_folder_that_others_can_write_needs_a_token(self, noted, monkeypatch):
        noted.parent.chmod(0o777)
        assert "RAY_AUTH_MODE=token" in spelled(refused_address("auto").remedy, in_python)
        monkeypatch.setenv("RAY_AUTH_MODE", "token")
        assert connection.address_of("auto") == "10.0.0.1:6379"

    def test_a_file_of_another_user_names_no_cluster_whatever_the_token(self, noted, monkeypatch):
        monkeypatch.setenv("RAY_AUTH_MODE", "token")
        monkeypatch.setattr(os, "geteuid", lambda: noted.stat().st_uid + 1)
        monkeypatch.setattr(connection, "ADMINISTRATOR", -1)
        assert str(noted) in refused_address("auto").problem

    def test_links_and_pipes_are_not_followed(self, noted):
        other = noted.with_name("elsewhere")
        noted.rename(other)
        noted.symlink_to(other)
        refused_address("auto")
        noted.unlink()
        os.mkfifo(noted, 0o600)
        refused_address("auto")


@pytest.mark.parametrize("name", ["host", "host:", ":6379", "host:0", "host:70000", "host:٣", ""])
def test_an_address_is_a_host_and_a_port(name):
    refused_address(name)


# ---- a cluster that is lost


class Losing(Strategy):
    """Trains some chunks, after which the cluster is gone."""

    workers = (None,)
    n_chunks = 10
    is_guarded = False

    def __init__(self):
        self.rows = np.zeros(1)

    def compile(self, progress): ...

    def train_chunk(self, worker, epoch, chunk, rate):
        if self.rows[0] == 4:
            raise LostClusterError("the head at 10.0.0.1:6379 is lost")
        self.rows += 1
        return Tally(1.0, 1, 10)

    def state(self):
        state = TrainState()
        state.add_array("rows", self.rows)
        return state


def test_a_run_whose_cluster_is_lost_keeps_its_state_and_says_how_to_resume(workdir):
    output = workdir / "model"
    checkpoints = checkpoints_of(output)
    strategy = Losing()
    with pytest.raises(LostClusterError) as error:
        trainer.train(strategy, Schedule(0.1, 10, 100, 1), Silent(), checkpoints=checkpoints)
    assert error.value.problem == "the head at 10.0.0.1:6379 is lost"
    assert f"embedx resume {output}" in error.value.remedy
    assert checkpoints.states()


def test_a_worker_that_fails_as_the_run_ends_does_not_hide_the_error_of_the_run():
    def failing(method):
        raise ValueError("no more machines")

    workers = Workers.__new__(Workers)
    workers.closed = True
    workers.error = LostClusterError("the head is lost")
    workers._start(SimpleNamespace(call=failing))
    assert isinstance(workers.error, LostClusterError)
