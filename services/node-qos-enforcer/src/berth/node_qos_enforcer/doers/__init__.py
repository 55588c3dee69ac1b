"""What strategies want that is no file: cookies of core scheduling, the device's classes, marks of netfilter.

A doer is asked each round to bring about all that is wanted of its knobs. What it finds of its own and nobody wants, it
takes away, also what a process before it has left.
"""

from berth.node_qos_enforcer.doers.doing import Doers

__all__ = ["Doers"]
