"""Trains the chunks of a strategy: threads, learning rate, progress, clean ends and the divergence
guard.

The trainer knows neither text nor objectives: a `Strategy` trains one chunk with one worker's
workspace. The trainer decides which chunk is next, at which learning rate, and when to stop.
"""

import math
import os
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
from embedx.runtime.control_groups import processors
from embedx.runtime.interrupts import to_the_end
from embedx.runtime.memory import MemoryPlan
from embedx.runtime.progress import Progress
from embedx.settings import Options, Record
from embedx.training.checkpoint import Checkpoints, resumed_by
from embedx.training.guard import Guard
from embedx.training.schedule import Schedule
from embedx.training.state import TrainState
from embedx.training.strategy import Strategy, Tally

# epoch, what it did, seconds of training so far; True ends the training
AfterEpoch = Callable[[int, Tally, float], bool]


@dataclass
class Outcome:
    """How a run ended."""

    tally: Tally
    seconds: float
    epochs: float  # a fraction when the run ended early
    final_loss: float | None  # mean per pair over the last twentieth of the run
    # the KeyboardInterrupt that ended it early, if one did
    interrupted_by: BaseException | None = None
    # live: take its snapshot before the tables change
    state: TrainState = field(default_factory=TrainState)
    highest_loss: float | None = None  # mean per pair over the worst twentieth
    # the learning rate after each rollback
    lowered_rates: list[float] = field(default_factory=list)
    # why it ended early, with the parameters of the last good checkpoint
    diverged: DivergedError | None = None
    initial_loss: float | None = None  # mean per pair before training
    baseline_loss: float | None = None  # and of a model that knows only how often each class occurs
    facts_of_strategy: Record = field(default_factory=dict)
    # the mean loss over each twentieth of the run
    curve: list[dict[str, float]] = field(default_factory=list)

    def facts(self, loss_unit: str = "") -> Record:
        """For the model's record: losses in this unit, how long it trained, rates after rollbacks,
        and the strategy's facts.
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
        """Raise what ended the run early, if anything did."""
        reason = self.interrupted_by or self.diverged
        if reason is not None:
            raise reason

    def check_trained(self, why: EmbedxError | None = None) -> None:
        """Raise, if nothing was trained, what ended the run early, or the error that says why; by
        default that there was no time.
        """
        if self.final_loss is None:
            self.raise_reason()
            problem = "was over before anything was trained"
            raise why or InapplicableError("time_budget", None, problem, "give more time")

    def without_state(self) -> "Outcome":
        """The same, to be kept or pickled: the state refers to all memory of the run, and to
        functions.
        """
        return replace(self, state=TrainState())


# as these say for all libraries that use threads
THREAD_VARIABLES = ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS")


def usable_cores() -> int:
    """How many cores this process may use: those it may run on, what the quota of its container
    leaves of them, rounded up, and no more than OMP_NUM_THREADS and NUMBA_NUM_THREADS.
    """
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    limits = [float(cores), math.ceil(min(processors(), cores))]
    for name in THREAD_VARIABLES:
        first = os.environ.get(name, "").split(",")[0].strip()  # of nested levels: the outermost
        if first.isdecimal() and int(first) > 0:
            limits.append(int(first))
    return max(int(min(limits)), 1)


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

    `after_epoch` is called after each epoch, complete or not, while no thread trains; its time is
    not counted. `snapshot` is of the state of a run that was set up alike (`Outcome.state`), which
    this run resumes. `beside` joins the state: what `after_epoch` keeps. `checkpoints` hold a state
    to resume, if they are asked to, and the state is written there now and then, and when Ctrl-C
    ends the run. Ctrl-C (any KeyboardInterrupt) ends the run after the chunks under way, and is
    reported in the outcome.

    A run that diverges is rolled back to where it was good, and continues at a lower learning rate
    (see `guard`). If that does not help, it ends with the last good parameters, as the outcome
    says, or `DivergedError` is raised if there are none. Raises whatever the strategy raises.
    """
    strategy.compile(progress)
    if plan is not None:
        plan.report(progress)
    guard = Guard()
    work = _Work(strategy, schedule, guard, progress, after_epoch, checkpoints)
    work.begin(snapshot, beside or TrainState())
    interrupted_by: KeyboardInterrupt | None = None
    lost_cluster: LostClusterError | None = None
    try:
        while work.diverged is None and (not work.is_over() or work.has_unreported_epoch()):
            work.train_until_pause()
    except KeyboardInterrupt as interrupt:
        interrupted_by = interrupt
    except LostClusterError as error:
        lost_cluster = error
        work.futures = []  # other threads lost it too
    finally:
        work.stop = True
        strategy.interrupt()
        to_the_end(work.end)
    guard.copy = None
    if work.diverged is not None and work.next_step == 0:
        raise work.diverged
    if checkpoints is not None:
        has_ended_early = interrupted_by is not None or lost_cluster is not None
        if has_ended_early and work.next_step > 0:
            to_the_end(partial(checkpoints.take, work.state, wait=True))
        else:
            to_the_end(checkpoints.finish)
    if lost_cluster is not None:
        raise _with_way_to_resume(lost_cluster, checkpoints)
    return work.outcome(interrupted_by)


def _with_way_to_resume(
    error: LostClusterError, checkpoints: Checkpoints | None
) -> LostClusterError:
    """The error of a lost cluster; where there is a checkpoint, it says how to resume from it."""
    if checkpoints is None or not checkpoints.states():
        return error
    remedy = f"start it again, then `{resumed_by(checkpoints.output)}` continues the run"
    resumable = LostClusterError(error.problem, remedy)
    resumable.__cause__ = error
    return resumable


class _Work:
    """What the threads share; everything that changes does so under `lock`."""

    def __init__(
        self,
        strategy: Strategy,
        schedule: Schedule,
        guard: Guard,
        progress: Progress,
        after_epoch: AfterEpoch | None,
        checkpoints: Checkpoints | None,
    ) -> None:
        self.strategy = strategy
        self.schedule = schedule
        self.guard = guard
        self.progress = progress
        self.after_epoch = after_epoch
        self.checkpoints = checkpoints
        self.state = TrainState()  # of the run: this, the strategy's, the guard's
        self.futures: list[Future[None]] = []  # of the threads, since the last pause
        self.lock = threading.Lock()
        self.seconds_before = 0.0  # of training, until the last pause
        self.resumed: float | None = None  # when the threads were started; None in a pause
        self.stop = False
        self.hold = False  # for a moment, so that the state can be copied
        self.ended = False  # by after_epoch, before the schedule's end
        self.next_step = self.pause_at = 0
        self.under_way: set[int] = set()  # steps that were taken and are not done
        self.learning_rate = 0.0
        self.epoch = 0  # the next for after_epoch
        self.tally = self.before_epoch = Tally()  # now, and when that epoch began
        self.twentieths = [Tally()] * 20  # by share of the run done
        self.ends = [(0.0, 0.0)] * 20  # their last epochs and seconds
        self.wrong: Reason | None = None  # why the run diverges
        self.reached = 0  # words or examples, at the last check
        self.diverged: DivergedError | None = None
        self.pool = ThreadPoolExecutor(len(strategy.workers) or 1)

    # ---- the main thread

    def begin(self, snapshot: Options | None, beside: TrainState) -> None:
        """Restore the state to resume, if there is one, and begin the report of progress.

        snapshot  of the state of a run that was set up alike
        beside    joins the state
        """
        for part in (self.own_state(), self.guard.state(), self.strategy.state(), beside):
            self.state.include(part)
        if snapshot:
            self.state.restore(snapshot)
        elif self.checkpoints is not None and self.checkpoints.resumes:
            self.checkpoints.restore(self.state)
        self.guard.begin(self.strategy, self.state, self.checkpoints)
        self.begin_report()
        schedule = self.schedule
        if schedule.time_budget:
            self.progress.start("training", schedule.time_budget, "s", self.seconds)
            return
        total = schedule.n_words * schedule.epochs
        known_total = None if math.isinf(total) else total
        self.progress.start("training", known_total, f" {schedule.unit}", self.tally.words)

    def train_until_pause(self) -> None:
        """Train to the next pause: the end of an epoch, a checkpoint, a check of the guard; do
        there what is due.
        """
        self._train_and_report()
        wrong = self.check()
        if wrong is not None:
            self.diverged = self.roll_back(wrong)
            return
        is_checkpoint_due = self._is_checkpoint_due() and not self.is_over()
        self.hold = False
        if self.after_epoch is not None and (self.is_epoch_over or self.is_over()):
            done = self.tally.since(self.before_epoch)
            self.ended = self.after_epoch(self.epoch, done, self.seconds)
            # not if it was interrupted
            self.epoch += 1
            self.before_epoch = self.tally
        if self.checkpoints is not None and is_checkpoint_due:
            self.checkpoints.take(self.state)

    def _train_and_report(self) -> None:
        """Have the threads train until they pause."""
        interval = self.progress.interval
        if self.checkpoints is not None:
            interval = min(interval, self.checkpoints.request.every)
        self.resumed = time.monotonic()
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
        """Stop the clock. Raises what a thread raised."""
        self.seconds_before = self.seconds
        self.resumed = None
        for future in self.futures:
            future.result()

    def end(self) -> None:
        """Wait for the chunks under way and report what they did."""
        self.pool.shutdown()
        try:
            self.pause()
        finally:
            self.report()
            self.progress.finish()

    def roll_back(self, reason: Reason) -> DivergedError | None:
        """Bring a run that diverges back to where it was good, and lower its learning rate.

        Returns why not, if it is to end instead: where it was good, or at its beginning if that is
        not known.
        """
        guard, schedule, checkpoints = self.guard, self.schedule, self.checkpoints
        wrong = f"{reason} after {self.reached:,} {schedule.unit}"
        wrong += f" at learning rate {self.learning_rate:.4g}"
        is_out_of_time = schedule.time_budget is not None and self.seconds >= schedule.time_budget
        if not is_out_of_time and guard.roll_back():
            to = f"{self.tally.words:,} {schedule.unit}" if self.next_step else "the start"
            self.progress.warn(
                f"{wrong}: rolled back to {to}, learning rate {self.rate_at(self.next_step):.4g}"
            )
            self.wrong = None
            self.reached = 0
            if checkpoints is not None and checkpoints.states():  # which are of what went wrong
                checkpoints.take(self.state)
            self.begin_report()
            return None
        rates = ", ".join(
            f"{schedule.learning_rate * factor:.3g}" for factor in (1.0, *guard.lowered)
        )
        rate = Setting("learning_rate")
        remedy: Text = ("try a smaller ", rate, f", {schedule.learning_rate / 4:.3g} say")
        if guard.lowered:  # the rate may still be too high, or too low by now
            remedy = (
                f"none of the learning rates {rates} works: leave ",
                rate,
                " out, or try a smaller one",
            )
        if not guard.end():
            self.next_step = 0
        self.begin_report()
        return DivergedError(wrong, remedy)

    def outcome(self, interrupted_by: KeyboardInterrupt | None) -> Outcome:
        """How the run ended."""
        curve = [
            {"epoch": epoch, "seconds": seconds, "loss": tally.loss / tally.pairs}
            for tally, (epoch, seconds) in zip(self.twentieths, self.ends, strict=True)
            if tally.pairs
        ]
        losses = [point["loss"] for point in curve]
        return Outcome(
            self.tally,
            self.seconds,
            self.next_step / self.schedule.n_chunks,
            final_loss=losses[-1] if losses else None,
            interrupted_by=interrupted_by,
            state=self.state,
            highest_loss=max(losses, default=None),
            lowered_rates=[self.schedule.learning_rate * factor for factor in self.guard.lowered],
            diverged=self.diverged,
            initial_loss=self.guard.level,
            baseline_loss=self.guard.baseline,
            facts_of_strategy=self.strategy.facts(),
            curve=curve,
        )

    def begin_report(self) -> None:
        """Report what is done from here on."""
        self.reported = self.tally
        self.reported_at = self.seconds

    def report(self) -> None:
        """Report to `progress` what was done since the last report."""
        with self.lock:
            tally, rate = self.tally, self.learning_rate
        new = tally.since(self.reported)
        if new.words <= 0 or self.strategy.reports_itself:
            return
        now = self.seconds
        budget = self.schedule.time_budget
        unit = self.schedule.unit
        facts: Record = {f"{unit}_per_second": round(new.words / max(now - self.reported_at, 1e-9))}
        if unit != "nodes":
            facts |= self.schedule.epoch(self.next_step - len(self.under_way))
        self.progress.update(
            min(now, budget) if budget else tally.words,
            loss=new.mean_loss,
            loss_unit=self.strategy.loss_unit,
            learning_rate=rate,
            **facts,
        )
        self.reported = tally
        self.reported_at = now

    # ---- where the run is

    @property
    def seconds(self) -> float:
        """Seconds of training so far, without pauses."""
        if self.resumed is None:
            return self.seconds_before
        return self.seconds_before + time.monotonic() - self.resumed

    @property
    def share_done(self) -> float:
        """How much of the run is done, without what is under way."""
        return self.schedule.share_done(self.next_step - len(self.under_way), self.seconds)

    @property
    def is_epoch_over(self) -> bool:
        return self.after_epoch is not None and self.next_step >= self.pause_at

    def is_over(self) -> bool:
        is_out_of_steps = self.schedule.share_done(self.next_step, self.seconds) >= 1.0
        return self.strategy.is_finished or self.ended or self.stop or is_out_of_steps

    def has_unreported_epoch(self) -> bool:
        """Whether an epoch has begun, in this run or in the one that it resumes, of which
        after_epoch does not know.
        """
        begun = self.next_step > self.epoch * self.schedule.n_chunks
        return self.after_epoch is not None and not self.stop and begun

    def rate_at(self, step: int) -> float:
        """The learning rate of a chunk, counted over all epochs; with a time budget that of this
        moment.
        """
        share = min(self.schedule.share_done(step, self.seconds), 1.0)
        return self.schedule.rate(share, step) * self.guard.factor

    def own_state(self) -> TrainState:
        """Where the run is; steps under way are not done."""

        state = TrainState()
        state.add(
            "trainer.next_step",
            lambda: min(self.under_way, default=self.next_step),
            partial(setattr, self, "next_step"),
        )
        state.add_attribute("trainer.seconds", self, "seconds_before")
        for name in ("epoch", "ended", "tally", "before_epoch", "twentieths", "ends"):
            state.add_attribute(f"trainer.{name}", self, name)
        return state

    # ---- the guard

    @property
    def is_check_due(self) -> bool:
        return self.guard.is_due(self.share_done, self.strategy.phase(self.next_step))

    def check(self) -> Reason | None:
        """What is wrong with the run, if a check is due; in a pause, or with the lock
        of its state.
        """
        share, phase = self.share_done, self.strategy.phase(self.next_step)
        is_over = share >= 1.0 or self.strategy.is_finished
        self.reached = max(self.reached, self.tally.words)
        if self.wrong is None and (is_over or self.is_epoch_over or self.is_check_due):
            self.wrong = self.guard.check(share, self.next_step, phase, is_over)
        return self.wrong

    # ---- the threads that train

    def train(self, worker: Any) -> None:
        """Take the next chunk, train it, add it to the tally; until there is a pause."""
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
        """Add what a chunk did, begun when this share of the run was over; False if the chunk was
        cut short or its loss is not finite.
        """
        if done is None:
            self.next_step = min(self.next_step, number)
            return False
        if not math.isfinite(done.loss):
            self.wrong = Reason("the loss is not finite")
            self.reached = self.tally.words + done.words
            return False
        self.tally += done
        self.twentieths[int(20 * share)] += done
        epochs = round(self.next_step / self.schedule.n_chunks, 4)
        self.ends[int(20 * share)] = (epochs, round(self.seconds, 3))
        # A chunk that was begun before the last check, which did not wait for it, counts when it
        # ends.
        self.guard.add(share if share >= self.guard.since else self.share_done, done)
        return True

    def _take(self) -> tuple[int, float, float] | None:
        """The next chunk, the share of the run that is over, and the learning rate there; None
        where there is a pause.
        """
        with self.lock:
            share = self.schedule.share_done(self.next_step, self.seconds)
            is_over = self.stop or self.strategy.is_finished or share >= 1.0
            if is_over or self.hold or self.is_epoch_over:
                return None
            is_same_phase = self.strategy.phase(self.next_step) == self.guard.phase
            can_read_state = self.state.lock is not None and is_same_phase
            if self.wrong is None and self.is_check_due and can_read_state:
                assert self.state.lock is not None
                with self.state.lock:  # the state can be read while it trains
                    self.check()
            if self.wrong is not None or self.is_check_due:
                return None
            number = self.next_step
            self.next_step += 1
            self.under_way.add(number)
            self.learning_rate = self.rate_at(number)
            return number, share, self.learning_rate
