"""Who is looked at first: the order of waiting pods and gang groups.

Priority first, then sub-priority; among equals the group that was served longest ago, so that two large jobs take
turns and neither starves. This is Koordinator's order of v1.5 and v1.6. It is a total order over different pods:
everybody who sorts the same entries gets the same list.
"""

from typing import NamedTuple


class QueueEntry(NamedTuple):
    """One waiting pod, or the pod that stands for its group.

    `time` is the start of the last round of the gang group, or the creation of the gang when it had none; for a pod
    without a gang, the time it was queued (any one unit for all entries). `rounds` counts the rounds this member took
    part in.
    """

    name: str
    priority: int = 0
    sub_priority: int = 0
    time: float = 0
    group_id: str = ""
    gang_id: str = ""
    rounds: int = 0
    namespace: str = ""


OrderKey = tuple[int, int, float, str, str, int, str, str]


def order_key(entry: QueueEntry) -> OrderKey:
    """Smaller is earlier. A pod without a gang is a group of its own under its own name."""
    own = f"{entry.namespace}/{entry.name}" if entry.namespace else entry.name
    return (
        -entry.priority,
        -entry.sub_priority,
        entry.time,
        entry.group_id or own,
        entry.gang_id or own,
        entry.rounds,
        entry.name,
        entry.namespace,
    )
