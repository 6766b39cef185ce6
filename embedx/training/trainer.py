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
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from embedx.errors import (
    DivergedError,
    EmbedxError,
    InapplicableError,
    LostClusterError,
    Reason,
    Setting,
    Text,
)
from embedx.runtime.interrupts import to_the_end
from embedx.runtime.memory import MemoryPlan
from embedx.runtime.progress import Progress
from embedx.settings import Options, Record
from embedx.training.checkpoint import Checkpoints
from embedx.training.guard import Guard
from embedx.training.run_command import resume_command
from embedx.training.schedule import Schedule
from embedx.training.state import TrainState
from embedx.training.strategy import Strategy, Tally

# (epoch, its tally, seconds of training so far) -> whether to end training.
AfterEpoch = Callable[[int, Tally, float], bool]


@dataclass
class Outcome:
    """The result of a run. Losses are means per pair; None if unknown.

    epochs             a fraction if the run ended early
    final_loss         over the last part of the curve, a twentieth of the run, that has pairs
    interrupted_by     the KeyboardInterrupt that ended the run early
    state              live: take a snapshot before the tables change
    highest_loss       over the worst twentieth
    lowered_rates      the learning rate after each rollback
    diverged           the error that ended the run early, at its last good state
    initial_loss       before training
    baseline_loss      of a model that predicts the frequencies of classes
    facts_of_strategy  for the model's record
    curve              mean loss of each twentieth of the run
    """

    tally: Tally
    seconds: float
    epochs: float
    final_loss: float | None
    interrupted_by: BaseException | None = None
    state: TrainState = field(default_factory=TrainState)
    highest_loss: float | None = None
    lowered_rates: list[float] = field(default_factory=list)
    diverged: DivergedError | None = None
    initial_loss: float | None = None
    baseline_loss: float | None = None
    facts_of_strategy: Record = field(default_factory=dict)
    curve: list[dict[str, float]] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Whether the run trained to its end."""
        return self.interrupted_by is None and self.diverged is None

    def facts(self, loss_unit: str = "") -> Record:
        """Facts for the model's record: losses in this unit, epochs and seconds, rates after
        rollbacks, and those of the strategy.
        """
        always = {
            "final_loss": self.final_loss,
            "loss_unit": loss_unit,
            "highest_loss": self.highest_loss,
            "epochs": round(self.epochs, 4),
            "seconds": round(self.seconds, 3),
            "interrupted": self.interrupted_by is not None,
            **self.facts_of_strategy,
        }
        known = {
            "initial_loss": self.initial_loss,
            "baseline_loss": self.baseline_loss,
            "learning_rate_lowered": self.lowered_rates or None,
            "loss_curve": self.curve or None,
        }
        return always | {name: value for name, value in known.items() if value is not None}

    def raise_reason(self) -> None:
        """Raise the error or interrupt that ended the run early, if any."""
        reason = self.interrupted_by or self.diverged
        if reason is not None:
            raise reason

    def check_trained(self, why: EmbedxError | None = None) -> None:
        """If nothing was trained, raise the error that ended the run early, else `why`; by default
        that there was no time.
        """
        if self.final_loss is not None:
            return
        self.raise_reason()
        if why is not None:
            raise why
        problem = "was over before anything was trained"
        raise InapplicableError("time_budget", None, problem, "give more time")

    def without_state(self) -> "Outcome":
        """The outcome without its state, which refers to all memory of the run, and cannot be
        pickled.
        """
        return replace(self, state=TrainState())


def run(
    strategy: Strategy,
    schedule: Schedule,
    progress: Progress,
    after_epoch: AfterEpoch | None = None,
    snapshot: Options | None = None,
    beside: TrainState | None = None,
    checkpoints: Checkpoints | None = None,
    plan: MemoryPlan | None = None,
) -> Outcome:
    """Train to the end of the schedule with one thread for each of the strategy's workers.

    after_epoch  called after each epoch, complete or not, while no thread trains; its time does not
                 count
    snapshot     state of an earlier run with the same setup (`Outcome.state`), to resume it
    beside       state of `after_epoch`, which is saved with the run's
    checkpoints  have the state to resume, if any; the state is written there from time to time, and
                 when Ctrl-C ends the run

    Ctrl-C (any KeyboardInterrupt) ends the run after the current chunks, and is in the outcome. A
    run that diverges is rolled back to its last good state, and continues at a lower learning rate
    (see `guard`). If it still diverges, it ends with the last good parameters, and the error is in
    the outcome; if there are none, `DivergedError` is raised. Raises whatever the strategy raises.
    """
    strategy.compile(progress)
    if plan is not None:
        plan.report(progress)
    work = _Work(strategy, schedule, progress, after_epoch, checkpoints)
    work.begin(snapshot, beside or TrainState())
    ended_by = _train_until_over(work)
    if work.diverged is not None and work.next_step == 0:
        raise work.diverged
    if checkpoints is not None and ended_by is not None and work.next_step > 0:
        to_the_end(partial(checkpoints.take, work.state, wait=True))
    if isinstance(ended_by, LostClusterError):
        raise _with_resume_command(ended_by, checkpoints)
    return work.outcome(ended_by)


def _train_until_over(work: "_Work") -> KeyboardInterrupt | LostClusterError | None:
    """Train until the run is over. Returns the interrupt or error that ended it early, once current
    chunks and checkpoints are done; else None.

    An interrupt after the last step ends the run as well: its model is complete, and its state is
    written like that of any interrupted run.
    """
    ended_by: KeyboardInterrupt | LostClusterError | None = None
    try:
        while work.diverged is None and (not work.is_over() or work.has_unreported_epoch()):
            work.train_until_pause()
        to_the_end(work.finish_checkpoint, then_raise=True)
    except KeyboardInterrupt as interrupt:
        ended_by = interrupt
    except LostClusterError as error:
        ended_by = error
        # Other threads would raise the same error.
        work.futures = []
    finally:
        work.stop = True
        work.strategy.interrupt()
        to_the_end(work.end)
    work.guard.copy = None
    return ended_by


def _with_resume_command(
    error: LostClusterError, checkpoints: Checkpoints | None
) -> LostClusterError:
    """The error of a lost cluster; where there is a checkpoint, it says how to resume from it."""
    if checkpoints is None or not checkpoints.states():
        return error
    remedy = f"start it again, then `{resume_command(checkpoints.output)}` continues the run"
    resumable = LostClusterError(error.problem, remedy)
    resumable.__cause__ = error
    return resumable


class _LossCurve:
    """The loss curve of a run, in parts of a twentieth.

    tallies  of the parts
    ends     epochs and seconds of training at the end of each part
    """

    PARTS = 20

    def __init__(self) -> None:
        self.tallies = [Tally()] * self.PARTS
        self.ends = [(0.0, 0.0)] * self.PARTS

    def add(self, share: float, tally: Tally, epochs: float, seconds: float) -> None:
        """Add a chunk that was started at this share of the run."""
        part = int(self.PARTS * share)
        self.tallies[part] += tally
        self.ends[part] = (round(epochs, 4), round(seconds, 3))

    def points(self) -> list[dict[str, float]]:
        """Epoch, seconds and mean loss of each part that had pairs."""
        return [
            {"epoch": epoch, "seconds": seconds, "loss": tally.loss / tally.pairs}
            for tally, (epoch, seconds) in zip(self.tallies, self.ends, strict=True)
            if tally.pairs
        ]


class _Work:
    """State that the threads share, which changes only under `lock`.

    state           of the whole run, with those of the strategy and the guard
    futures         of the threads, since the last pause
    seconds_before  seconds of training until the last pause
    started_at      start of the threads; None in a pause
    hold            threads have to pause, so that the state can be copied
    ended           whether `after_epoch` has ended training
    under_way       steps that were started and are not finished
    epoch           the next epoch for `after_epoch`
    before_epoch    the tally at its start
    wrong           why the run diverges
    reached         words or examples at the last check
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
        self.guard = Guard()
        self.progress = progress
        self.after_epoch = after_epoch
        self.checkpoints = checkpoints
        self.state = TrainState()
        self.futures: list[Future[None]] = []
        self.lock = threading.Lock()
        self.seconds_before = 0.0
        self.started_at: float | None = None
        self.stop = False
        self.hold = False
        self.ended = False
        self.next_step = 0
        self.pause_at = 0
        self.under_way: set[int] = set()
        self.learning_rate = 0.0
        self.epoch = 0
        self.tally = Tally()
        self.before_epoch = Tally()
        self.curve = _LossCurve()
        self.wrong: Reason | None = None
        self.reached = 0
        self.diverged: DivergedError | None = None
        self.pool = ThreadPoolExecutor(len(strategy.workers) or 1)

    # ---- the main thread

    def begin(self, snapshot: Options | None, beside: TrainState) -> None:
        """Restore the state to resume, if there is one, and start the progress bar.

        snapshot  state of an earlier run with the same setup
        beside    state of `after_epoch`
        """
        for part in (self.own_state(), self.guard.state(), self.strategy.state(), beside):
            self.state.include(part)
        if snapshot:
            self.state.restore(snapshot)
        elif self.checkpoints is not None and self.checkpoints.is_resuming:
            self.checkpoints.restore(self.state)
        self.guard.begin(self.strategy, self.state, self.checkpoints)
        self.begin_report()
        self._start_progress()

    def _start_progress(self) -> None:
        """Start a bar over the seconds of a time budget, else over words or examples."""
        schedule = self.schedule
        if schedule.time_budget:
            self.progress.start("training", schedule.time_budget, "s", self.seconds)
            return
        total = schedule.n_words * schedule.epochs
        known_total = None if math.isinf(total) else total
        self.progress.start("training", known_total, f" {schedule.unit}", self.tally.words)

    def train_until_pause(self) -> None:
        """Train to the next pause, the end of an epoch, a checkpoint or a check of the guard; then
        do what is due.
        """
        self._train_and_report()
        wrong = self.check()
        if wrong is not None:
            self.diverged = self.roll_back(wrong)
            return
        # Before `hold` is cleared, which this reads.
        is_checkpoint_due = self._is_checkpoint_due() and not self.is_over()
        self.hold = False
        if self.is_epoch_over or self.is_over():
            self._end_epoch()
        if self.checkpoints is not None and is_checkpoint_due:
            self.checkpoints.take(self.state)

    def _end_epoch(self) -> None:
        """Call `after_epoch`, then start the next epoch, unless it raises an interrupt."""
        if self.after_epoch is None:
            return
        done = self.tally.since(self.before_epoch)
        self.ended = self.after_epoch(self.epoch, done, self.seconds)
        self.epoch += 1
        self.before_epoch = self.tally

    def _train_and_report(self) -> None:
        """Have the threads train until they pause."""
        interval = self.progress.interval
        if self.checkpoints is not None:
            interval = min(interval, self.checkpoints.every)
        self.started_at = time.monotonic()
        self.pause_at = (self.epoch + 1) * self.schedule.n_chunks
        self.futures = [self.pool.submit(self.train, worker) for worker in self.strategy.workers]
        while wait(self.futures, interval).not_done:
            if self.seconds - self.reported_at >= 0.9 * interval:
                self.report()
            self.hold = self.checkpoints is not None and self.checkpoints.is_due()
        self.pause()
        if self.seconds - self.reported_at >= self.progress.interval:
            self.report()

    def _is_checkpoint_due(self) -> bool:
        return self.checkpoints is not None and (self.hold or self.checkpoints.is_due())

    def pause(self) -> None:
        """Stop the clock. Raises an error of the threads, if any."""
        self.seconds_before = self.seconds
        self.started_at = None
        for future in self.futures:
            future.result()

    def finish_checkpoint(self) -> None:
        """Wait until the current checkpoint, if any, is on disk."""
        if self.checkpoints is not None:
            self.checkpoints.finish()

    def end(self) -> None:
        """Wait for the current chunks, and report their tally."""
        self.pool.shutdown()
        try:
            self.pause()
        finally:
            self.report()
            self.progress.finish()

    def roll_back(self, reason: Reason) -> DivergedError | None:
        """Restore the last good state of a run that diverges, and lower its learning rate.

        Returns None if the run continues; else the error that ends it, with the last good
        parameters, or the initial ones.
        """
        wrong = (
            f"{reason} after {self.reached:,} {self.schedule.unit}"
            f" at learning rate {self.learning_rate:.4g}"
        )
        if not self._is_out_of_time and self.guard.roll_back():
            self._continue_from_rollback(wrong)
            return None
        error = self._diverged(wrong)
        if not self.guard.end():
            self.next_step = 0
        self.begin_report()
        return error

    def _continue_from_rollback(self, wrong: str) -> None:
        """Warn of a rollback, and continue from its state."""
        place = "the start"
        if self.next_step:
            place = f"{self.tally.words:,} {self.schedule.unit}"
        rate = self.rate_at(self.next_step)
        self.progress.warn(f"{wrong}: rolled back to {place}, learning rate {rate:.4g}")
        self.wrong = None
        self.reached = 0
        if self.checkpoints is not None and self.checkpoints.states():
            self.checkpoints.take(self.state)
        self.begin_report()

    def _diverged(self, wrong: str) -> DivergedError:
        """The error of a run that ends. After rollbacks the rate may be too low as well as too
        high.
        """
        first = self.schedule.learning_rate
        setting = Setting("learning_rate")
        if not self.guard.lowered:
            remedy: Text = ("try a smaller ", setting, f", {first / 4:.3g} say")
            return DivergedError(wrong, remedy)
        rates = ", ".join(f"{rate:.3g}" for rate in (first, *self._lowered_rates))
        problem = f"none of the learning rates {rates} works: leave "
        return DivergedError(wrong, (problem, setting, " out, or try a smaller one"))

    @property
    def _lowered_rates(self) -> list[float]:
        """The learning rate after each rollback."""
        return [self.schedule.learning_rate * factor for factor in self.guard.lowered]

    def outcome(self, ended_by: KeyboardInterrupt | None) -> Outcome:
        """The outcome of the run."""
        curve = self.curve.points()
        losses = [point["loss"] for point in curve]
        return Outcome(
            self.tally,
            self.seconds,
            self._epochs,
            final_loss=losses[-1] if losses else None,
            interrupted_by=ended_by,
            state=self.state,
            highest_loss=max(losses, default=None),
            lowered_rates=self._lowered_rates,
            diverged=self.diverged,
            initial_loss=self.guard.untrained_loss,
            baseline_loss=self.guard.baseline,
            facts_of_strategy=self.strategy.facts(),
            curve=curve,
        )

    def begin_report(self) -> None:
        """Start the interval of the next report."""
        self.reported = self.tally
        self.reported_at = self.seconds

    def report(self) -> None:
        """Report the tally since the last report to `progress`."""
        with self.lock:
            tally = self.tally
            rate = self.learning_rate
        new = tally.since(self.reported)
        if new.words <= 0 or self.strategy.reports_itself:
            return
        now = self.seconds
        unit = self.schedule.unit
        pace = new.words / max(now - self.reported_at, 1e-9)
        facts: Record = {f"{unit}_per_second": round(pace)}
        if self.schedule.has_epochs:
            facts |= self.schedule.epoch(self.next_step - len(self.under_way))
        done: float = tally.words
        if self.schedule.time_budget:
            done = min(now, self.schedule.time_budget)
        self.progress.update(
            done,
            loss=new.mean_loss,
            loss_unit=self.strategy.loss_unit,
            learning_rate=rate,
            **facts,
        )
        self.reported = tally
        self.reported_at = now

    # ---- the position of the run

    @property
    def seconds(self) -> float:
        """Seconds of training so far, without pauses."""
        if self.started_at is None:
            return self.seconds_before
        return self.seconds_before + time.monotonic() - self.started_at

    @property
    def _is_out_of_time(self) -> bool:
        budget = self.schedule.time_budget
        return budget is not None and self.seconds >= budget

    @property
    def _epochs(self) -> float:
        """The number of epochs so far, the last as a fraction."""
        return self.next_step / self.schedule.n_chunks

    @property
    def share_done(self) -> float:
        """The share of the run that is done, without the current chunks."""
        return self.schedule.share_done(self.next_step - len(self.under_way), self.seconds)

    @property
    def is_epoch_over(self) -> bool:
        return self.after_epoch is not None and self.next_step >= self.pause_at

    def is_over(self) -> bool:
        is_out_of_steps = self.schedule.share_done(self.next_step, self.seconds) >= 1.0
        return self.strategy.is_finished or self.ended or self.stop or is_out_of_steps

    def has_unreported_epoch(self) -> bool:
        """Whether an epoch has started, in this run or the one it resumes, without a call of
        `after_epoch`.
        """
        begun = self.next_step > self.epoch * self.schedule.n_chunks
        return self.after_epoch is not None and not self.stop and begun

    def rate_at(self, step: int) -> float:
        """The learning rate of a chunk, counted over all epochs; with a time budget, the current
        rate.
        """
        share = min(self.schedule.share_done(step, self.seconds), 1.0)
        return self.schedule.rate(share, step) * self.guard.factor

    def own_state(self) -> TrainState:
        """The position of the run, without its current steps."""
        state = TrainState()
        state.add(
            "trainer.next_step",
            lambda: min(self.under_way, default=self.next_step),
            partial(setattr, self, "next_step"),
        )
        state.add_attribute("trainer.seconds", self, "seconds_before")
        for name in ("epoch", "ended", "tally", "before_epoch"):
            state.add_attribute(f"trainer.{name}", self, name)
        for name in ("tallies", "ends"):
            state.add_attribute(f"trainer.curve.{name}", self.curve, name)
        return state

    # ---- the guard

    @property
    def is_check_due(self) -> bool:
        return self.guard.is_due(self.share_done, self.strategy.phase(self.next_step))

    def check(self) -> Reason | None:
        """Check the run if that is due; return why it diverges, or None. Called in a pause, or with
        the lock of its state.
        """
        share = self.share_done
        phase = self.strategy.phase(self.next_step)
        is_over = share >= 1.0 or self.strategy.is_finished
        self.reached = max(self.reached, self.tally.words)
        if self.wrong is None and (is_over or self.is_epoch_over or self.is_check_due):
            self.wrong = self.guard.check(share, self.next_step, phase, is_over)
        return self.wrong

    # ---- the threads that train

    def train(self, worker: Any) -> None:
        """Take chunks, train on them and add them to the tally, until there is a pause."""
        try:
            step = self._take()
            while step is not None:
                number, share, rate = step
                epoch, chunk = divmod(number, self.schedule.n_chunks)
                done = self.strategy.train(worker, epoch, chunk, rate)
                with self.lock:
                    self.under_way.discard(number)
                    if not self._add(number, share, done):
                        return
                step = self._take()
        except BaseException:
            self.stop = True
            raise

    def _add(self, number: int, share: float, done: Tally | None) -> bool:
        """Add the tally of a chunk that was started at this share of the run; return False if it
        was interrupted, or its loss is not finite.
        """
        if done is None:
            self.next_step = min(self.next_step, number)
            return False
        if not math.isfinite(done.loss):
            self.wrong = Reason("the loss is not finite")
            self.reached = self.tally.words + done.words
            return False
        self.tally += done
        self.curve.add(share, done, self._epochs, self.seconds)
        # A check under the lock of the state does not wait for current chunks.
        was_begun_before_check = share < self.guard.since
        if was_begun_before_check:
            share = self.share_done
        self.guard.add(share, done)
        return True

    def _take(self) -> tuple[int, float, float] | None:
        """(number, share of the run done, learning rate) of the next chunk; None if there is a
        pause.
        """
        with self.lock:
            share = self.schedule.share_done(self.next_step, self.seconds)
            is_over = self.stop or self.strategy.is_finished or share >= 1.0
            if is_over or self.hold or self.is_epoch_over:
                return None
            # A check that can read the state during training happens here; others need a pause.
            is_same_phase = self.strategy.phase(self.next_step) == self.guard.phase
            can_read_state = self.state.lock is not None and is_same_phase
            if self.wrong is None and self.is_check_due and can_read_state:
                assert self.state.lock is not None
                with self.state.lock:
                    self.check()
            if self.wrong is not None or self.is_check_due:
                return None
            number = self.next_step
            self.next_step += 1
            self.under_way.add(number)
            self.learning_rate = self.rate_at(number)
            return number, share, self.learning_rate
