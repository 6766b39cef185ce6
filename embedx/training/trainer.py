"""Trains the chunks of a strategy: threads, learning rate, progress, clean ends and the divergence
guard.

The trainer knows neither text nor objectives: a `Strategy` trains a chunk with the workspace of a
worker. The trainer decides which chunk is next, its learning rate, and when to stop.
"""

import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Any, NamedTuple

from embedx.errors import DivergedError, LostClusterError, Reason, Setting, Text
from embedx.runtime.interrupts import to_the_end
from embedx.runtime.memory import MemoryPlan
from embedx.runtime.progress import Progress
from embedx.settings import Options
from embedx.training.checkpoint import Checkpoints
from embedx.training.guard import Guard
from embedx.training.outcome import LossCurve, Outcome
from embedx.training.progress_reports import ProgressReports, Status
from embedx.training.run_command import resume_command
from embedx.training.schedule import Schedule
from embedx.training.state import TrainState
from embedx.training.strategy import Strategy, Tally

# (epoch, its tally, seconds of training so far) -> whether to end training.
AfterEpoch = Callable[[int, Tally, float], bool]


def train(
    strategy: Strategy,
    schedule: Schedule,
    progress: Progress,
    after_epoch: AfterEpoch | None = None,
    snapshot: Options | None = None,
    extra_state: TrainState | None = None,
    checkpoints: Checkpoints | None = None,
    plan: MemoryPlan | None = None,
) -> Outcome:
    """Train to the end of the schedule with one thread for each of the strategy's workers.

    after_epoch  called after each epoch, also the last, incomplete one, while no thread trains; its
                 time does not count
    snapshot     state of an earlier run with the same setup (`Outcome.state`), to resume it
    extra_state  state of `after_epoch`, which is saved with the run's
    checkpoints  have the state to resume, if any and without a snapshot; the state is written there
                 from time to time, and when Ctrl-C ends the run
    plan         memory that the run needs, which is logged

    Ctrl-C (any KeyboardInterrupt) ends the run after the running chunks, and is in the outcome. A
    run that diverges is rolled back to its last good state, and continues at a lower learning rate
    (see `guard`). If it still diverges, it ends with the last good parameters, and the error is in
    the outcome; if there are none, `DivergedError` is raised. Raises whatever the strategy raises.
    """
    strategy.compile(progress)
    if plan is not None:
        plan.report(progress)
    training = _Training(strategy, schedule, progress, after_epoch, checkpoints)
    training.begin(snapshot, extra_state or TrainState())
    ended_by = training.train_until_over()
    if training.divergence is not None and not training.has_good_state:
        raise training.divergence
    has_begun = training.next_chunk > 0
    if checkpoints is not None and ended_by is not None and has_begun:
        to_the_end(partial(checkpoints.take, training.state, wait=True))
    if isinstance(ended_by, LostClusterError):
        raise _resumable(ended_by, checkpoints)
    outcome = training.outcome(ended_by)
    training.release_state()
    return outcome


def _resumable(error: LostClusterError, checkpoints: Checkpoints | None) -> LostClusterError:
    """The error of a lost cluster; where there is a checkpoint, it says how to resume from it."""
    if checkpoints is None or not checkpoints.states():
        return error
    remedy = f"start it again, then `{resume_command(checkpoints.output)}` continues the run"
    resumable = LostClusterError(error.problem, remedy)
    resumable.__cause__ = error
    return resumable


class _ScheduledChunk(NamedTuple):
    """A chunk that a thread trains on next.

    number          counted over all epochs
    share_at_start  share of the run that is done when it begins
    lr              learning rate
    """

    number: int
    share_at_start: float
    lr: float


class _Training:
    """The training of a strategy by threads.

    The main thread has all threads train until they pause, and does in the pause what needs one:
    `after_epoch`, checkpoints, checks of the guard, rollbacks. What the threads share changes under
    `lock`, or in a pause.
    """

    def __init__(
        self,
        strategy: Strategy,
        schedule: Schedule,
        progress: Progress,
        after_epoch: AfterEpoch | None,
        checkpoints: Checkpoints | None,
    ) -> None:
        self.strategy = strategy
        self.schedule = schedule
        self.progress = progress
        self.reports = ProgressReports(progress, schedule, strategy)
        self.after_epoch = after_epoch
        self.checkpoints = checkpoints
        # Of the whole run: the position, the guard, the strategy and `after_epoch`.
        self.state = TrainState()
        self.guard = Guard(strategy, self.state, checkpoints)
        self.lock = threading.Lock()

        # The position: what `_position` saves.
        self.next_chunk = 0
        # Chunks that were started and are not finished.
        self.running_chunks: set[int] = set()
        # Until the last pause.
        self.seconds_before = 0.0
        # Epochs that `after_epoch` was called for, and the tally after them.
        self.n_reported_epochs = 0
        self.reported_tally = Tally()
        self.tally = Tally()
        self.curve = LossCurve()
        # Whether `after_epoch` ended the run.
        self.is_ended_after_epoch = False

        # The threads: they pause before `pause_chunk`, and for a checkpoint; stopped, they end.
        self.pool = ThreadPoolExecutor(len(strategy.workers) or 1)
        self.futures: list[Future[None]] = []
        # When the threads started; None in a pause.
        self.started_at: float | None = None
        # The first chunk of the next epoch if `after_epoch` is called before it; else none.
        self.pause_chunk = math.inf
        self.is_checkpoint_wanted = False
        self.is_stopped = False
        self.learning_rate = 0.0

        # Why the run is to be rolled back, and after how many items; None once it is.
        self.rollback_reason: Reason | None = None
        self.items_at_check = 0
        # The error that ends the run, and whether the parameters are good all the same: without the
        # error they are.
        self.divergence: DivergedError | None = None
        self.has_good_state = True

    # ---- the main thread

    def begin(self, snapshot: Options | None, extra_state: TrainState) -> None:
        """Restore the state to resume, if there is one; have the guard copy it, and measure the
        loss before training; start the progress bar.

        snapshot  state of an earlier run with the same setup
        extra_state  state of `after_epoch`
        """
        for part in (self._position(), self.guard.state(), self.strategy.state(), extra_state):
            self.state.include(part)
        if snapshot:
            self.state.restore(snapshot)
        elif self.checkpoints is not None and self.checkpoints.is_resuming:
            self.checkpoints.restore(self.state)
        self.guard.begin()
        self.reports.start(self._status())

    def train_until_over(self) -> KeyboardInterrupt | LostClusterError | None:
        """Train until the run is over. Returns the interrupt or error that ended it early, once
        running chunks and checkpoints are done; else None.

        An interrupt after the last chunk ends the run as well: its model is complete, and its state
        is written like that of any interrupted run.
        """
        ended_by: KeyboardInterrupt | LostClusterError | None = None
        try:
            # The last turn may train nothing, and only report an epoch.
            while self.divergence is None and (not self._is_over or self._has_unreported_epoch):
                self._train_until_pause()
                self._use_pause()
            to_the_end(self._finish_checkpoint, then_raise=True)
        except KeyboardInterrupt as interrupt:
            ended_by = interrupt
        except LostClusterError as error:
            ended_by = error
            # Other threads would raise the same error.
            self.futures = []
        finally:
            self.is_stopped = True
            self.strategy.interrupt()
            to_the_end(self._end)
        self.guard.free_copy()
        return ended_by

    def _train_until_pause(self) -> None:
        """Train until all threads pause, and report progress meanwhile."""
        interval = self.progress.interval
        if self.checkpoints is not None:
            interval = min(interval, self.checkpoints.every)
        if self.after_epoch is not None:
            self.pause_chunk = (self.n_reported_epochs + 1) * self.schedule.n_chunks
        self.started_at = time.monotonic()
        self.futures = [
            self.pool.submit(self._train_chunks, worker) for worker in self.strategy.workers
        ]
        while wait(self.futures, interval).not_done:
            if self.seconds - self.reports.seconds >= 0.9 * interval:
                self._report()
            self.is_checkpoint_wanted = self.checkpoints is not None and self.checkpoints.is_due()
        self._stop_clock()
        if self.seconds - self.reports.seconds >= self.progress.interval:
            self._report()

    def _use_pause(self) -> None:
        """Do what is due in a pause: a check of the guard, `after_epoch`, a checkpoint."""
        reason = self._check()
        if reason is not None:
            self.divergence = self._roll_back(reason)
            return
        # Before `is_checkpoint_wanted` is cleared, which this reads.
        is_checkpoint_due = self._is_checkpoint_due and not self._is_over
        self.is_checkpoint_wanted = False
        if self._has_unreported_epoch and (self._is_at_pause_chunk or self._is_over):
            self._report_epoch()
        if self.checkpoints is not None and is_checkpoint_due:
            self.checkpoints.take(self.state)

    def _report_epoch(self) -> None:
        """Call `after_epoch`; unless it raises an interrupt, the epoch is then reported."""
        assert self.after_epoch is not None
        tally = self.tally.since(self.reported_tally)
        self.is_ended_after_epoch = self.after_epoch(self.n_reported_epochs, tally, self.seconds)
        self.n_reported_epochs += 1
        self.reported_tally = self.tally

    @property
    def _is_checkpoint_due(self) -> bool:
        if self.checkpoints is None:
            return False
        return self.is_checkpoint_wanted or self.checkpoints.is_due()

    def _stop_clock(self) -> None:
        """Stop the clock in a pause. Raises an error of the threads, if any."""
        self.seconds_before = self.seconds
        self.started_at = None
        for future in self.futures:
            future.result()

    def _finish_checkpoint(self) -> None:
        """Wait until the current checkpoint, if any, is on disk."""
        if self.checkpoints is not None:
            self.checkpoints.finish()

    def _end(self) -> None:
        """Wait for the running chunks, and report their tally."""
        self.pool.shutdown()
        try:
            self._stop_clock()
        finally:
            self._report()
            self.reports.finish()

    # ---- rollbacks

    def _roll_back(self, reason: Reason) -> DivergedError | None:
        """Restore the last good state of a run that diverges, and lower its learning rate.

        Returns None if the run continues; else the error that ends it, with the last good
        parameters, or the initial ones.
        """
        problem = (
            f"{reason} after {self.items_at_check:,} {self.schedule.unit}"
            f" at learning rate {self.learning_rate:.4g}"
        )
        if not self._is_out_of_time and self.guard.roll_back():
            self._continue_from_rollback(problem)
            return None
        error = self._diverged_error(problem)
        self.has_good_state = self.guard.end_at_good_state()
        self.reports.restart_interval(self._status())
        return error

    def _continue_from_rollback(self, problem: str) -> None:
        """Warn of a rollback, and continue from its state."""
        place = "the start"
        if self.next_chunk > 0:
            place = f"{self.tally.items:,} {self.schedule.unit}"
        lr = self._lr_at(self.next_chunk)
        self.progress.warn(f"{problem}: rolled back to {place}, learning rate {lr:.4g}")
        self.rollback_reason = None
        self.items_at_check = 0
        if self.checkpoints is not None and self.checkpoints.states():
            self.checkpoints.take(self.state)
        self.reports.restart_interval(self._status())

    def _diverged_error(self, problem: str) -> DivergedError:
        """The error of a run that ends. After rollbacks the rate may be too low as well as too
        high.
        """
        first = self.schedule.learning_rate
        setting = Setting("learning_rate")
        if not self.guard.factors:
            remedy: Text = ("try a smaller ", setting, f", {first / 4:.3g} say")
            return DivergedError(problem, remedy)
        rates = ", ".join(f"{rate:.3g}" for rate in (first, *self._lowered_rates))
        none_worked = f"{problem}; none of the learning rates {rates} worked"
        return DivergedError(none_worked, ("leave ", setting, " out, or try a smaller one"))

    @property
    def _lowered_rates(self) -> list[float]:
        """The learning rate after each rollback."""
        return [self.schedule.learning_rate * factor for factor in self.guard.factors]

    # ---- what the run reports

    def outcome(self, ended_by: KeyboardInterrupt | None) -> Outcome:
        """The outcome of the run."""
        curve = self.curve.points()
        losses = [point["loss"] for point in curve]
        return Outcome(
            self.tally,
            self.seconds,
            self._epochs,
            final_loss=self._loss,
            interrupted_by=ended_by,
            state=self.state,
            highest_loss=max(losses, default=None),
            lowered_rates=self._lowered_rates,
            divergence=self.divergence,
            initial_loss=self.guard.untrained_loss,
            baseline_loss=self.guard.baseline,
            facts_of_strategy=self.strategy.facts(),
            curve=curve,
        )

    def release_state(self) -> None:
        """Leave the state to the outcome. It refers to this object: in a cycle, the parameters
        would stay in memory until the garbage collector runs.
        """
        self.state = self.guard.state_of_run = TrainState()

    def _report(self) -> None:
        """Report the status of the run to `progress`."""
        with self.lock:
            status = self._status()
        self.reports.report(status)

    def _status(self) -> Status:
        """The status of the run. Call it with `lock`, or in a pause."""
        return Status(self.tally, self.seconds, self._n_finished, self._loss, self.learning_rate)

    @property
    def _loss(self) -> float | None:
        """The loss of the run so far: in progress, and in the outcome at the end."""
        exact = self.strategy.loss
        return self.curve.last if exact is None else exact

    # ---- the position of the run

    def _position(self) -> TrainState:
        """The position of the run, without its running chunks."""
        state = TrainState()
        state.add(
            "trainer.next_chunk",
            lambda: min(self.running_chunks, default=self.next_chunk),
            partial(setattr, self, "next_chunk"),
        )
        state.add_attribute("trainer.seconds", self, "seconds_before")
        state.add_attribute("trainer.ended", self, "is_ended_after_epoch")
        state.add_attribute("trainer.epoch", self, "n_reported_epochs")
        state.add_attribute("trainer.tally", self, "tally")
        state.add_attribute("trainer.before_epoch", self, "reported_tally")
        state.include(self.curve.state())
        return state

    @property
    def seconds(self) -> float:
        """Seconds of training so far, without pauses."""
        if self.started_at is None:
            return self.seconds_before
        return self.seconds_before + time.monotonic() - self.started_at

    @property
    def _epochs(self) -> float:
        """The number of epochs so far, the last as a fraction."""
        return self.next_chunk / self.schedule.n_chunks

    @property
    def _n_finished(self) -> int:
        """The number of finished chunks, about: later ones may be finished before earlier ones."""
        return self.next_chunk - len(self.running_chunks)

    @property
    def _share_finished(self) -> float:
        """The share of the run that is done by finished chunks."""
        return self.schedule.share_done(self._n_finished, self.seconds)

    @property
    def _is_out_of_time(self) -> bool:
        budget = self.schedule.time_budget
        return budget is not None and self.seconds >= budget

    @property
    def _is_over(self) -> bool:
        """Whether no further chunk is taken: the schedule or the strategy is at its end,
        `after_epoch` ended the run, or it is stopped. Chunks may still be running.
        """
        if self.strategy.is_finished or self.is_ended_after_epoch or self.is_stopped:
            return True
        return self.schedule.share_done(self.next_chunk, self.seconds) >= 1.0

    @property
    def _is_at_pause_chunk(self) -> bool:
        return self.next_chunk >= self.pause_chunk

    @property
    def _has_unreported_epoch(self) -> bool:
        """Whether an epoch has started, in this run or the one it resumes, without a call of
        `after_epoch`.
        """
        begun = self.next_chunk > self.n_reported_epochs * self.schedule.n_chunks
        return self.after_epoch is not None and not self.is_stopped and begun

    def _lr_at(self, number: int) -> float:
        """The learning rate of a chunk; with a time budget, the current rate."""
        share = min(self.schedule.share_done(number, self.seconds), 1.0)
        return self.schedule.lr(share, number) * self.guard.factor

    # ---- the guard

    @property
    def _is_check_due(self) -> bool:
        return self.guard.is_due(self._share_finished, self.strategy.phase(self.next_chunk))

    def _check(self) -> Reason | None:
        """Check the run if that is due, before an epoch is reported, and at the end; return why it
        diverges, or None. Called in a pause, or with `state.read_lock`.
        """
        self.items_at_check = max(self.items_at_check, self.tally.items)
        is_over = self._is_over
        if self.rollback_reason is None and (
            is_over or self._is_at_pause_chunk or self._is_check_due
        ):
            phase = self.strategy.phase(self.next_chunk)
            self.rollback_reason = self.guard.check(
                self._share_finished, self.next_chunk, phase, is_over
            )
        return self.rollback_reason

    def _check_without_pause(self) -> None:
        """Check the run while other threads train, if its state can be read then: it has a lock for
        this, and the phase stays the same. Called with `lock`.
        """
        read_lock = self.state.read_lock
        is_same_phase = self.strategy.phase(self.next_chunk) == self.guard.phase
        if read_lock is not None and is_same_phase:
            with read_lock:
                self._check()

    # ---- the threads that train

    def _train_chunks(self, worker: Any) -> None:
        """Take chunks, train on them and add them to the tally, until there is a pause."""
        try:
            while (chunk := self._take_chunk()) is not None:
                epoch, number_in_epoch = divmod(chunk.number, self.schedule.n_chunks)
                tally = self.strategy.train_chunk(worker, epoch, number_in_epoch, chunk.lr)
                with self.lock:
                    self.running_chunks.discard(chunk.number)
                    if not self._add(chunk, tally):
                        return
        except BaseException:
            self.is_stopped = True
            raise

    def _take_chunk(self) -> _ScheduledChunk | None:
        """The next chunk; None if there is a pause."""
        with self.lock:
            if self._is_over or self._is_at_pause_chunk or self.is_checkpoint_wanted:
                return None
            if self.rollback_reason is None and self._is_check_due:
                self._check_without_pause()
            # A check that is still due needs a pause.
            if self.rollback_reason is not None or self._is_check_due:
                return None
            number = self.next_chunk
            share_at_start = self.schedule.share_done(number, self.seconds)
            self.learning_rate = self._lr_at(number)
            self.next_chunk += 1
            self.running_chunks.add(number)
            return _ScheduledChunk(number, share_at_start, self.learning_rate)

    def _add(self, chunk: _ScheduledChunk, tally: Tally | None) -> bool:
        """Add the tally of a chunk; return False if it was interrupted, or its loss is not
        finite.
        """
        if tally is None:
            self.next_chunk = min(self.next_chunk, chunk.number)
            return False
        if not math.isfinite(tally.loss):
            self.rollback_reason = Reason("the loss is not finite")
            self.items_at_check = self.tally.items + tally.items
            return False
        self.tally += tally
        share = chunk.share_at_start
        self.curve.add(share, tally, self._epochs, self.seconds)
        if share < self.guard.interval_start:
            # The run was checked while this chunk was trained (`_check_without_pause`): the chunk
            # counts for the interval after that check.
            share = self._share_finished
        self.guard.add(share, tally)
        return True
