"""The devices of the nodes as the solver keeps them: a quick check of many nodes at once, and of one in plain numbers.

The exact choice within one node is :mod:`berth.rules.devices`; who holds which device is counted elsewhere.
"""

from berth.placement_solver.core.devices.cards import Cards
from berth.placement_solver.core.devices.fleet import Fleet
from berth.placement_solver.core.devices.record import slots_of_inventory
from berth.rules.devices.allocate import allocate
from berth.rules.devices.columns import FPGA, GPU, RDMA, Family, Vector
from berth.rules.devices.gpus import allocate_gpus
from berth.rules.devices.scoring import LEAST_ALLOCATED, MOST_ALLOCATED, Scoring, scoring_of
from berth.rules.devices.slots import Grant, NoCapacity, Slot, charge, release
from berth.rules.devices.topology import SCOPES
from berth.rules.devices.want import Want, gpu_want

__all__ = [
    "FPGA",
    "GPU",
    "LEAST_ALLOCATED",
    "MOST_ALLOCATED",
    "RDMA",
    "SCOPES",
    "Cards",
    "Family",
    "Fleet",
    "Grant",
    "NoCapacity",
    "Scoring",
    "Slot",
    "Vector",
    "Want",
    "allocate",
    "allocate_gpus",
    "charge",
    "gpu_want",
    "release",
    "scoring_of",
    "slots_of_inventory",
]
