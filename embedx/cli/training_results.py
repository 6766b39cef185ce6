"""What `embedx train` and `embedx classify` print alike: the plan of a dry run, losses, metrics."""

import math
from collections.abc import Mapping
from typing import Any

from embedx.cli.tables import show_facts
from embedx.runtime.disk import free_disk, summary
from embedx.settings import as_typed
from embedx.tasks.requests import RunRequest
from embedx.tasks.run import Planned
from embedx.training.checkpoint import KEPT_STATES
from embedx.training.life import DiskNeeds


def show_plan(request: RunRequest, planned: Planned) -> None:
    """Print what a run would write, its settings, data, memory and disk."""
    memory, needs = planned.memory, _disk_needs(planned.on_disk)
    free = free_disk(planned.output)
    facts: dict[str, Any] = {"model": str(planned.output)}
    if request.as_json:
        facts["settings"] = planned.settings
        facts["chosen"] = planned.origins
        facts["data"] = planned.data_size
        facts["data_hash"] = planned.data_hash
        facts["memory"] = memory.parts
        facts["available"] = memory.available
        facts["disk"] = needs
        facts["disk_free"] = free
    else:
        for name, value in planned.settings.items():
            reason = planned.origins.get(name)
            shown = f"{as_typed(value)}, chosen: {reason}" if reason else value
            facts[name.replace("_", "-")] = shown
        facts["data"] = planned.data_size
        facts["memory"] = summary(memory.parts, memory.available)
        if not memory.fits:
            facts["memory"] += ": TOO LITTLE"
        if needs:
            facts["disk"] = summary(needs, free)
        else:
            facts["disk"] = "known after training, as weights are sparse"
    show_facts(facts, request.as_json)


def _disk_needs(on_disk: DiskNeeds | None) -> dict[str, float]:
    """Bytes of the model and its checkpoints; nothing where they are not known."""
    if on_disk is None:
        return {}
    return {"model": on_disk.model, "checkpoints": (KEPT_STATES + 1) * on_disk.state}


def loss_line(facts: Mapping[str, Any], otherwise: str) -> str:
    """`loss 1.8336 nats per pair (before training 4.1589, by frequencies alone 3.2)`."""
    if facts["final_loss"] is None:
        return otherwise
    line = f"loss {facts['final_loss']:.4f} {facts['loss_unit']}"
    references = {"before training": "initial_loss", "by frequencies alone": "baseline_loss"}
    known = [
        f"{name} {facts[fact]:.4f}"
        for name, fact in references.items()
        if facts.get(fact) is not None
    ]
    if known:
        line += f" ({', '.join(known)})"
    return line


def plain_numbers(metrics: Mapping[str, float]) -> dict[str, float | None]:
    """Metrics for JSON: null where a number is not finite."""
    return {name: value if math.isfinite(value) else None for name, value in metrics.items()}
