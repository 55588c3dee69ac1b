"""Bugs in what the solver and cluster-writer do with claims and volumes. The verifier and the last check make the
solver's mistake: else no such plan would be committed, or be carried out."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

import numpy as np
from tests.simulation.planted.in_writer import together

from berth.cluster_writer.core import judge, steps
from berth.cluster_writer.core.volume_holders import VolumeHolders
from berth.placement_solver.core.constraints.node_volume_limits import NodeVolumeLimits
from berth.placement_solver.core.constraints.volume_restrictions import VolumeRestrictions
from berth.placement_solver.core.node_labels import NodeLabels
from berth.placement_solver.core.tallies.volumes import VolumesTally
from berth.placement_solver.core.verify import verifier
from berth.rules import volume_binding
from berth.rules.volume_binding import Promises

Planted = AbstractContextManager[object]


def _believed(*patches: Planted) -> Planted:
    return together(
        patch.object(verifier, "volume_problems", lambda *_: ()),
        patch.object(VolumeHolders, "clash", lambda *_: None),
        *patches,
    )


def claims_shared() -> Planted:
    """A claim of mode ReadWriteOncePod is one like any other."""
    return _believed(patch.object(VolumeRestrictions, "prefilter", lambda *_: None))


def no_limits() -> Planted:
    """A node takes as many volumes as there are."""
    return _believed(patch.object(NodeVolumeLimits, "prefilter", lambda *_: None))


def kept_for_two() -> Planted:
    """A volume that a decision keeps for a claim is free for other claims."""
    real = VolumesTally.promises

    def promises(self: VolumesTally, *args: Any) -> Promises:
        return Promises({}, real(self, *args).selected)

    return _believed(
        patch.object(VolumesTally, "is_kept", lambda *_: False), patch.object(VolumesTally, "promises", promises)
    )


def reached_from_everywhere() -> Planted:
    """Volumes are reached from every node."""
    return _believed(
        patch.object(NodeLabels, "reached", lambda self, _: np.arange(len(self))),
        patch.object(volume_binding, "is_reached", lambda *_: True),
        patch.object(steps, "is_reached", lambda *_: True),
    )


def bound_before_its_steps() -> Planted:
    """A pod is bound as soon as the requests of its steps are sent."""
    real = judge.next_step

    def next_step(*args: Any) -> steps.Outcome:
        found = real(*args)
        return steps.Outcome(steps.Progress.DONE) if found.progress is steps.Progress.WAIT else found

    return patch.object(judge, "next_step", next_step)
