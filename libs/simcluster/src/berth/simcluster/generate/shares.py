"""The published distribution of the openb trace, as constants.

Source: cluster-trace-gpu-v2023 ("Beware of Fragmentation", USENIX ATC 2023), the lists `openb_node_list_gpu_node.csv`
(1,213 nodes) and `openb_pod_list_default.csv` (8,152 pods), counted once. Amounts of a pod class are medians within
the class.
"""

from typing import NamedTuple


class NodeClass(NamedTuple):
    """Machines of one kind, and how many of the 1,213 are of it (`weight`)."""

    model: str
    gpus: int
    cpu_milli: int
    memory_mib: int
    weight: int


class PodClass(NamedTuple):
    """Pods that ask for the same GPUs, and how many of the 8,152 do (`weight`).

    `best_effort` of them are of QoS class BE.

    `gpu_milli`: thousandths of one card where `gpus` is 1; 1000 elsewhere.
    """

    gpus: int
    gpu_milli: int
    weight: int
    cpu_milli: int
    memory_mib: int
    best_effort: int


NODE_CLASSES = (
    NodeClass("G2", 8, 96_000, 393_216, 549),
    NodeClass("T4", 2, 104_000, 524_288, 387),
    NodeClass("P100", 2, 16_000, 122_880, 107),
    NodeClass("G3", 8, 128_000, 786_432, 39),
    NodeClass("V100M16", 4, 32_000, 131_072, 28),
    NodeClass("P100", 2, 64_000, 262_144, 22),
    NodeClass("V100M32", 8, 96_000, 786_432, 21),
    NodeClass("V100M16", 1, 8_000, 32_768, 19),
    NodeClass("T4", 4, 96_000, 393_216, 17),
    NodeClass("V100M32", 4, 48_000, 376_832, 9),
    NodeClass("V100M16", 8, 64_000, 262_144, 7),
    NodeClass("P100", 1, 8_000, 61_440, 3),
    NodeClass("P100", 2, 8_000, 61_440, 2),
    NodeClass("A10", 1, 128_000, 1_048_576, 2),
    NodeClass("V100M16", 8, 82_000, 344_064, 1),
)

POD_CLASSES = (
    PodClass(0, 0, 1088, 12_500, 51_200, 450),
    PodClass(1, 50, 7, 6_000, 22_888, 7),
    PodClass(1, 110, 24, 4_000, 22_888, 23),
    PodClass(1, 140, 1, 1_000, 2_048, 1),
    PodClass(1, 160, 74, 4_000, 15_258, 74),
    PodClass(1, 220, 62, 4_000, 22_888, 62),
    PodClass(1, 230, 140, 4_000, 30_517, 140),
    PodClass(1, 270, 4, 4_152, 10_600, 4),
    PodClass(1, 290, 1, 1_000, 2_048, 1),
    PodClass(1, 320, 328, 4_000, 22_888, 328),
    PodClass(1, 330, 7, 4_000, 22_888, 7),
    PodClass(1, 350, 6, 4_000, 22_888, 6),
    PodClass(1, 370, 47, 4_152, 10_600, 45),
    PodClass(1, 440, 2, 8_000, 30_517, 1),
    PodClass(1, 460, 128, 6_000, 12_288, 0),
    PodClass(1, 470, 750, 11_908, 47_104, 360),
    PodClass(1, 480, 19, 4_000, 22_888, 19),
    PodClass(1, 550, 72, 4_152, 10_600, 72),
    PodClass(1, 590, 75, 3_152, 5_600, 75),
    PodClass(1, 650, 253, 11_908, 47_104, 16),
    PodClass(1, 810, 1078, 3_152, 5_600, 1078),
    PodClass(1, 1000, 3911, 11_400, 48_128, 629),
    PodClass(2, 1000, 16, 16_200, 66_560, 0),
    PodClass(4, 1000, 15, 32_200, 132_096, 0),
    PodClass(8, 1000, 44, 88_000, 327_680, 0),
)
