"""Has a strategy train chunks of data: threads, learning rate, progress, clean ends and the divergence guard.

The trainer knows neither text nor objectives. It is given a `Strategy`, which trains one chunk with one worker's memory and
returns what happened; it decides which chunk is next, at which rate, and when to stop.
"""

import math
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from embedx.errors import DivergedError, EmbedxError
from embedx.training.checkpoint import Checkpoints
from embedx.training.guard import Guard
from embedx.training.interrupts import to_the_end
from embedx.training.memory import Plan, memory_taken
from embedx.training.progress import Progress
from embedx.training.schedule import Schedule
from embedx.training.state import TrainState
from embedx.training.strategy import Strategy, Tally

MOMENT = 0.5  # seconds between looks at how fast a run that has just begun goes
TIMED = 2.0  # seconds that are looked at, after the first moment
NO_TIME = "nothing was trained before the --time-budget was over; give more time"
WORTH_TELLING = 10.0  # seconds that are left then


@dataclass
class Outcome:
    """How a run ended."""

    tally: Tally
    seconds: float
    epochs: float  # passes over the data, a fraction when it ended early
    first_loss: float | None  # mean per pair over the first twentieth of the run
    final_loss: float | None  # and over the last
    interrupted_by: BaseException | None = None  # the KeyboardInterrupt that ended it early, if one did
    # With a snapshot of this another run can go on from here. It is live: to be taken before the tables are changed otherwise.
    state: TrainState = field(default_factory=TrainState)
    highest_loss: float | None = None  # mean per pair over the worst twentieth
    lowered_rates: list[float] = field(default_factory=list)  # what the rate was lowered to, each time that the run diverged
    diverged: DivergedError | None = None  # why it ended early, with what was last found good
    initial_loss: float | None = None  # mean per pair before training
    baseline_loss: float | None = None  # and of parameters that predict how often each class occurs, whatever the input
    facts_of_strategy: dict[str, Any] = field(default_factory=dict)

    def facts(self) -> dict[str, Any]:
        """For the model's record: the strategy's, what the loss is compared with, and learning rates after divergences."""
        known = {"initial_loss": self.initial_loss, "baseline_loss": self.baseline_loss}
        lowered = {"learning_rate_lowered": self.lowered_rates} if self.lowered_rates else {}
        return self.facts_of_strategy | {name: value for name, value in known.items() if value is not None} | lowered

    def raise_reason(self) -> None:
        """Raise what ended the run early, if anything did."""
        reason = self.interrupted_by or self.diverged
        if reason is not None:
            raise reason

    def check_trained(self, why: str = NO_TIME) -> None:
        """Raise, if nothing was trained, what ended the run early, or an `EmbedxError` that says why."""
        if self.final_loss is None:
            self.raise_reason()
            raise EmbedxError(why)

    def without_state(self) -> "Outcome":
        """The same, to be kept or pickled: the state holds on to all memory of the run, and is of functions."""
        return replace(self, state=TrainState())


NUMBERS = ("first", "second", "third", "fourth")


def usable_cores() -> int:
    """How many cores this process may run on."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        return os.cpu_count() or 1


def run(
    strategy: Strategy,
    schedule: Schedule,
    progress: Progress,
    after_epoch: Callable[[int, Tally, float], bool] | None = None,
    snapshot: Mapping[str, Any] | None = None,
    beside: TrainState | None = None,
    checkpoints: Checkpoints | None = None,
    guard: Guard | None = None,
    plan: Plan | None = None,
) -> Outcome:
    """Train to the end of the schedule with one thread for each of the strategy's workers.

    `after_epoch` (number of the epoch, what it did, seconds of training so far), if given, is called while no thread trains,
    after each epoch that was begun; training ends when it returns True. Its time is not counted.
    `snapshot` is of the state of a run that was set up alike (`Outcome.state`): training goes on from there. `beside` is what
    `after_epoch` keeps, and joins the state. `checkpoints` are where it goes on from if they are asked to resume, and the state
    is written there now and then, and when Ctrl-C ends the run.
    Ctrl-C (any KeyboardInterrupt) ends it after the chunks under way, and is reported in the outcome.

    A run that diverges goes on from where it was good, at a lower rate (see `guard`), which is told. If that does not help it
    ends with what was last found good, as the outcome tells; if that is nothing `DivergedError` is raised. A `guard` that is
    given is new, and may be off: then the error is raised at once. Raises whatever the strategy raises.
    """
    kernels = memory_taken(lambda: strategy.compile(progress))
    if plan is not None:
        plan.tell(progress, kernels)
    guard = guard or Guard()
    work = _Work(strategy, schedule, guard, pausing=after_epoch is not None)
    strategy.rate_at = work.rate_at
    state = work.state()
    state.include(guard.state())
    state.include(strategy.state())
    state.include(beside or TrainState())
    if snapshot:
        state.restore(snapshot)
    elif checkpoints is not None and checkpoints.resumes:
        checkpoints.restore(state)
    guard.begin(strategy, state, snapshot)
    work.all_state = state
    reports = _Reports(work, progress)
    diverged: DivergedError | None = None
    interrupted_by: BaseException | None = None
    if schedule.time_budget:
        progress.start("training", schedule.time_budget, "s", work.seconds)
    else:
        total = schedule.n_words * schedule.epochs
        progress.start("training", None if math.isinf(total) else total, f" {schedule.unit}", work.tally.words)
    workers: list[threading.Thread] = []
    interval = progress.interval if checkpoints is None else min(progress.interval, checkpoints.request.every)
    try:
        while not work.is_over() or (after_epoch is not None and work.owes_epoch()):
            work.resume(len(strategy.workers))
            workers = [threading.Thread(target=work.go_on, args=(worker,), daemon=True) for worker in strategy.workers]
            for worker in workers:
                worker.start()
            while not work.idle.wait(min(interval, MOMENT) if reports.owes_end else interval):
                reports.tell_end()
                if work.seconds - reports.told_at >= 0.9 * interval:
                    reports.tell()
                work.hold = checkpoints is not None and checkpoints.is_due()
            work.pause()
            if work.seconds - reports.told_at >= progress.interval:  # which may be longer than a run trains between two looks
                reports.tell()
            if work.error is None and (wrong := work.look()) is not None:
                diverged = _go_back(wrong, work, state, checkpoints, progress)
                reports.start_anew()
                if diverged is not None:
                    break
                continue
            is_held = checkpoints is not None and (work.hold or checkpoints.is_due()) and not work.is_over()
            work.hold = False
            if after_epoch is not None and work.error is None and (work.is_epoch_over or work.is_over()):
                work.ended = after_epoch(work.epoch, work.tally.since(work.before_epoch), work.seconds)
                work.epoch, work.before_epoch = work.epoch + 1, work.tally  # told now, and not if it was interrupted
            if checkpoints is not None and is_held:
                checkpoints.take(state)
    except KeyboardInterrupt as interrupt:
        interrupted_by = interrupt
    finally:
        work.stop = True
        strategy.interrupt()
        to_the_end(lambda: _end(workers, reports, progress))
    guard.copy = None
    if work.error is not None:
        raise work.error
    if diverged is not None and work.next_step == 0:
        raise diverged
    if checkpoints is not None:
        was_cut_short = interrupted_by is not None and work.next_step > 0
        to_the_end(partial(checkpoints.take, state, wait=True) if was_cut_short else checkpoints.finish)
    losses = [tally.loss / tally.pairs for tally in work.twentieths if tally.pairs]
    first, final, highest = (losses[0], losses[-1], max(losses)) if losses else (None, None, None)
    epochs = work.steps_done / schedule.n_chunks
    lowered = [schedule.learning_rate * factor for factor in guard.lowered]
    return Outcome(
        work.tally, work.seconds, epochs, first, final, interrupted_by, state, highest, lowered, diverged,
        initial_loss=guard.first_level, baseline_loss=guard.baseline, facts_of_strategy=strategy.facts(),
    )  # fmt: skip


def _go_back(
    wrong: str, work: "_Work", state: TrainState, checkpoints: Checkpoints | None, progress: Progress
) -> DivergedError | None:
    """Bring a run that diverges back to where it was good, and on at a lower rate; why not, if it is to end instead: then the
    run is back there, or at its beginning if there is no saying where it was good. One that is just no better than a baseline
    stays as it is.
    """
    guard, schedule, before = work.guard, work.schedule, work.learning_rate
    wrong += f" after {work.reached:,} {schedule.unit} at learning rate {before:.4g}"
    if not work.is_out_of_time and guard.go_back(work.strategy, state, checkpoints):
        rate = work.rate_at(work.next_step)
        to = f"{work.tally.words:,} {schedule.unit}" if work.next_step else "the start"
        progress.note(f"warning: {wrong}: back to {to}, learning rate {rate:.4g}")
        work.wrong, work.reached = None, 0
        if checkpoints is not None:
            checkpoints.renew(state)
        return None
    times = f", for the {NUMBERS[len(guard.lowered)]} time" if guard.lowered else ""
    tried = schedule.learning_rate * guard.factor
    if not guard.is_weak and not guard.end(work.strategy, state, checkpoints):
        work.next_step = 0
    if guard.is_weak and guard.lowered:  # the rate may still be too high, or too low by now
        rates = ", ".join(f"{schedule.learning_rate * factor:.3g}" for factor in (1.0, *guard.lowered))
        return DivergedError(
            f"{wrong}{times}; none of the learning rates {rates} works: leave --learning-rate out or try another"
        )
    return DivergedError(f"{wrong}{times}; try a smaller --learning-rate, {tried / 4:.3g} say")


def _end(workers: Sequence[threading.Thread], reports: "_Reports", progress: Progress) -> None:
    """Wait for the chunks under way and tell what they did."""
    for worker in workers:
        if worker.ident is not None:
            worker.join()
    reports.work.pause()
    reports.tell()
    progress.finish()


@dataclass
class _Work:
    """What the workers share; everything that changes does so under `lock`."""

    strategy: Strategy
    schedule: Schedule
    guard: Guard
    pausing: bool  # at the end of each epoch
    n_workers: int = 0  # that still have something to do
    lock: threading.Lock = field(default_factory=threading.Lock)
    idle: threading.Event = field(default_factory=threading.Event)  # the last worker has left
    seconds_before: float = 0.0  # of training, until the last pause
    resumed: float | None = None  # when the threads were let go; None while they pause
    stop: bool = False
    hold: bool = False  # for a moment, so that the state can be copied
    ended: bool = False  # by after_epoch, before the schedule's end
    next_step: int = 0
    under_way: set[int] = field(default_factory=set)  # steps that were taken and are not done
    all_state: TrainState = field(default_factory=TrainState)  # of the run: this, the strategy's, the guard's
    pause_at: int = 0
    steps_done: int = 0
    learning_rate: float = 0.0
    tally: Tally = field(default_factory=Tally)
    epoch: int = 0  # that after_epoch hears of next
    before_epoch: Tally = field(default_factory=Tally)  # when it began
    twentieths: list[Tally] = field(default_factory=lambda: [Tally() for _ in range(20)])  # by share of the run done
    wrong: str | None = None  # what a worker found to be so
    reached: int = 0  # words or examples, when it was last looked at
    error: BaseException | None = None

    @property
    def is_out_of_time(self) -> bool:
        return self.schedule.time_budget is not None and self.seconds >= self.schedule.time_budget

    @property
    def share_done(self) -> float:
        """How much of the run is done, without what is under way."""
        return self.schedule.share_done(self.next_step - len(self.under_way), self.seconds)

    @property
    def is_due(self) -> bool:
        """Whether the run is to be looked at."""
        return self.guard.is_due(self.share_done, self.strategy.phase(self.next_step))

    def look(self) -> str | None:
        """What is wrong with the run, if it is to be looked at now; while it pauses, or with the lock of its state."""
        share, phase = self.share_done, self.strategy.phase(self.next_step)
        is_over = share >= 1.0 or self.strategy.is_finished
        self.reached = max(self.reached, self.tally.words)
        if self.wrong is None and (is_over or self.is_epoch_over or self.is_due):
            self.wrong = self.guard.look(share, self.next_step, phase, self.all_state, is_over)
        return self.wrong

    def look_on(self) -> None:
        """Look at the run while it goes on, if it is to be looked at, and can be."""
        lock, is_due = self.all_state.lock, self.wrong is None and self.is_due
        if lock is not None and is_due and self.strategy.phase(self.next_step) == self.guard.phase:
            with lock:
                self.look()

    @property
    def is_epoch_over(self) -> bool:
        return self.pausing and self.next_step >= self.pause_at

    @property
    def seconds(self) -> float:
        """Seconds of training so far, without pauses."""
        return self.seconds_before + (time.monotonic() - self.resumed if self.resumed is not None else 0.0)

    def state(self) -> TrainState:
        """Where the run is."""
        state = TrainState()
        state.add("trainer.next_step", lambda: self.first_left, partial(setattr, self, "next_step"))
        state.add("trainer.steps_done", lambda: self.done_before, partial(setattr, self, "steps_done"))
        state.add_attribute("trainer.seconds", self, "seconds_before")
        state.add_attribute("trainer.epoch", self, "epoch")
        state.add_attribute("trainer.ended", self, "ended")
        for name in ("tally", "before_epoch"):
            state.add(f"trainer.{name}", *_of_tally(self, name))

        def write_twentieths(values: Any) -> None:
            self.twentieths = [Tally(*each) for each in values]

        state.add("trainer.twentieths", lambda: [each.numbers() for each in self.twentieths], write_twentieths)
        return state

    @property
    def first_left(self) -> int:
        """Where a run goes on from the state as it is: at the first step that is not done."""
        return min(self.under_way, default=self.next_step)

    @property
    def done_before(self) -> int:
        """How many steps are done, without those that such a run takes again."""
        return self.steps_done - (self.next_step - self.first_left - len(self.under_way))

    def is_over(self) -> bool:
        if self.strategy.is_finished or self.ended:
            return True
        return self.stop or self.error is not None or self.schedule.share_done(self.next_step, self.seconds) >= 1.0

    def owes_epoch(self) -> bool:
        """Whether an epoch has begun, in this run or in the one that it goes on from, whose end was not told."""
        return not self.stop and self.error is None and self.next_step > self.epoch * self.schedule.n_chunks

    def resume(self, n_workers: int) -> None:
        self.n_workers, self.resumed = n_workers, time.monotonic()
        self.pause_at = (self.epoch + 1) * self.schedule.n_chunks
        self.idle.clear()

    def pause(self) -> None:
        self.seconds_before, self.resumed = self.seconds, None

    def go_on(self, worker: Any) -> None:
        """A worker's life: take the next chunk, train it, add it to the tally."""
        try:
            while (step := self._take()) is not None:
                number, share, rate = step
                epoch, chunk = divmod(number, self.schedule.n_chunks)
                done = self.strategy.train(worker, epoch, chunk, rate)
                with self.lock:
                    self.under_way.discard(number)
                    if done is None:
                        self.next_step = min(self.next_step, number)
                        break
                    if not math.isfinite(done.loss):
                        self.wrong = "the loss is not finite"
                        self.reached = self.tally.words + done.words
                        break
                    self.tally += done
                    self.twentieths[int(20 * share)] += done
                    # A chunk that was begun before the last look, which did not wait for it, counts when it ends.
                    self.guard.add(share if share >= self.guard.since else self.share_done, done)
                    self.steps_done += 1
        except BaseException as error:
            with self.lock:
                self.error = self.error or error
                self.stop = True
        finally:
            with self.lock:
                self.n_workers -= 1
                if self.n_workers == 0:
                    self.idle.set()

    def rate_at(self, step: int) -> float:
        """The learning rate of a chunk, counted over all passes; with a time budget that of this moment."""
        return self.schedule.rate(min(self.schedule.share_done(step, self.seconds), 1.0), step) * self.guard.factor

    def _take(self) -> tuple[int, float, float] | None:
        """The next chunk, the share of the run that is over, and the learning rate there; None at the end."""
        with self.lock:
            share = self.schedule.share_done(self.next_step, self.seconds)
            if self.stop or self.hold or self.strategy.is_finished or share >= 1.0 or self.is_epoch_over:
                return None
            self.look_on()
            if self.wrong is not None or self.is_due:
                return None
            number = self.next_step
            self.next_step += 1
            self.under_way.add(number)
            self.learning_rate = self.rate_at(number)
            return number, share, self.learning_rate


def _of_tally(owner: Any, name: str) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    """How to read and write a tally as a list."""
    return lambda: getattr(owner, name).numbers(), lambda value: setattr(owner, name, Tally(*value))


class _Reports:
    """Tells `progress` what happened since it was last told."""

    def __init__(self, work: _Work, progress: Progress) -> None:
        self.work, self.progress = work, progress
        schedule, is_steady = work.schedule, work.strategy.is_steady
        self.owes_end = is_steady and schedule.time_budget is None and math.isfinite(schedule.n_words * schedule.epochs)
        self.start_anew()

    def start_anew(self) -> None:
        """Tell from here on."""
        self.told, self.told_at = self.work.tally, self.work.seconds
        self.timed_from: tuple[float, int] | None = None  # seconds, words

    def tell_end(self) -> None:
        """Say, once, how long the rest will take, when a moment of training has shown, and if that is worth saying.

        What the run begins with must be what it goes on with.
        """
        if not self.owes_end:
            return
        work, schedule = self.work, self.work.schedule
        with work.lock:
            words, step, now = work.tally.words, work.next_step, work.seconds
        last = max(math.ceil(schedule.epochs * schedule.n_chunks) - 1, 0)
        if work.strategy.phase(min(step, last)) != work.strategy.phase(last):
            self.timed_from = None
        elif self.timed_from is None:
            self.timed_from = now, words
        elif now - self.timed_from[0] >= TIMED and words > self.timed_from[1]:
            self.owes_end = False
            rate = (words - self.timed_from[1]) / (now - self.timed_from[0])
            left = (schedule.n_words * schedule.epochs - words) / rate
            if left >= WORTH_TELLING:
                self.progress.expect(left, rate)

    def tell(self) -> None:
        with self.work.lock:
            tally, rate = self.work.tally, self.work.learning_rate
        now = self.work.seconds
        news = tally.since(self.told)
        if news.words == 0 or self.work.strategy.reports_itself:
            return
        self.progress.update(
            min(now, self.work.schedule.time_budget) if self.work.schedule.time_budget else tally.words,
            loss=news.mean_loss,
            loss_unit=self.work.strategy.loss_unit,
            learning_rate=rate,
            **{f"{self.work.schedule.unit}_per_second": round(news.words / max(now - self.told_at, 1e-9))},
        )
        self.told, self.told_at = tally, now
