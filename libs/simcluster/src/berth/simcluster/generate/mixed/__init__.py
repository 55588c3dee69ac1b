"""A cluster with machines of every vendor, 2 and 4 NUMA nodes, and pods of every shape: the same for the same seed."""

from berth.simcluster.generate.mixed.machines import MACHINES, Machine
from berth.simcluster.generate.mixed.mixed import LABEL_SHAPE, Mixed, MixedShape, generate_mixed
from berth.simcluster.generate.mixed.shapes import SHAPES, Shape

__all__ = [
    "LABEL_SHAPE",
    "MACHINES",
    "SHAPES",
    "Machine",
    "Mixed",
    "MixedShape",
    "Shape",
    "generate_mixed",
]
