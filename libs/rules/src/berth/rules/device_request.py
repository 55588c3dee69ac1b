"""What a pod asks of every kind of device: GPUs and NPUs, RDMA interfaces, FPGAs.

Each family is checked and normalised by itself; the first family with an invalid request refuses the pod. Vendor
resources that only a device plugin reads (Cambricon, MetaX) are no device requests here.
"""

from collections.abc import Mapping
from typing import Final

from berth.contracts.base import Problem
from berth.contracts.names import FPGA, RDMA
from berth.rules.gpu_request import AMOUNT_MAX, FAMILY, is_percent, normalise_gpu, request_field

_FAMILIES: Final = (("rdma", RDMA), ("fpga", FPGA))

RESOURCES_OF: Final[Mapping[str, frozenset[str]]] = {"gpu": FAMILY, **{kind: frozenset({n}) for kind, n in _FAMILIES}}
"""The names by which each family is asked for."""
DEVICE_RESOURCES: Final = frozenset[str]().union(*RESOURCES_OF.values())


def device_requests(requests: Mapping[str, int]) -> dict[str, dict[str, int]] | Problem:
    """Family (`gpu`, `rdma`, `fpga`) to its normalised request; empty when the pod asks for no device."""
    gpu = normalise_gpu(requests)
    if isinstance(gpu, Problem):
        return gpu
    found = {"gpu": gpu} if gpu else {}
    for family, name in _FAMILIES:
        amount = requests.get(name, 0)
        if amount == 0:
            continue
        if amount > AMOUNT_MAX or not is_percent(amount):
            return Problem(
                field=request_field(name),
                message=f"invalid resource unit: {amount} is neither at most 100 nor a multiple of 100",
            )
        found[family] = {name: amount}
    return found
