"""NVIDIA's management library, where this machine has it.

The library reports events of a GPU from the moment it is asked to. An event that counts against a GPU stays until the
GPU was away in a look: that is how a reset and a new driver show. Then the library is opened anew, at most every half
minute, since a GPU that is lost for good must not keep the others from being looked at.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, Final

import pynvml

from berth.contracts.base import Problem
from berth.vendors.probe import NvmlFacts, NvmlGpu

OPEN_EVERY_S: Final = 30.0
EVENTS_MAX: Final = 1_000
GPUS_MAX: Final = 1_024
XIDS_MAX: Final = 16
"""Events of one GPU that are kept, the first ones."""


class Nvml:
    """One opened library. Not for several threads at a time."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        """Nothing is loaded yet."""
        self.problems: tuple[Problem, ...] = ()
        self._monotonic = monotonic
        self._events: Any = None
        self._opened_s: float | None = None
        self._is_open = False
        self._watched: dict[str, bool] = {}  # by uuid: whether the driver reports events of it
        self._xids: dict[str, tuple[int, ...]] = {}
        self._stray: tuple[int, ...] = ()

    def facts(self) -> NvmlFacts | None:
        """What the library says; None where there is none. What went wrong besides is in `problems`."""
        self.problems = ()
        try:
            if not self._is_open:
                self._open()
            self._drain()
            return self._read()
        except pynvml.NVMLError as error:
            self._fail(error)
            return None

    def close(self) -> None:
        """Let go of the GPUs."""
        if self._is_open:
            self._is_open = False
            with contextlib.suppress(pynvml.NVMLError):
                if self._events is not None:
                    pynvml.nvmlEventSetFree(self._events)
            with contextlib.suppress(pynvml.NVMLError):
                pynvml.nvmlShutdown()
        self._events = None
        self._watched.clear()

    def _fail(self, error: Any) -> None:
        self.close()
        self._xids.clear()
        self._stray = ()
        if not isinstance(error, pynvml.NVMLError_LibraryNotFound):
            self.problems = (Problem(field="nvml", message=f"cannot be asked: {error}"),)

    def _open(self) -> None:
        pynvml.nvmlInit()
        self._is_open, self._opened_s = True, self._monotonic()
        try:
            self._events = pynvml.nvmlEventSetCreate()
        except pynvml.NVMLError:
            self._events = None

    def _drain(self) -> None:
        """Take the events that have come since the last look."""
        if self._events is None:
            return
        for _ in range(EVENTS_MAX):
            try:
                event = pynvml.nvmlEventSetWait_v2(self._events, 0)
            except pynvml.NVMLError_Timeout:
                return
            if event.eventType != pynvml.nvmlEventTypeXidCriticalError:
                continue
            xid = int(event.eventData)
            try:
                uuid = _text(pynvml.nvmlDeviceGetUUID(event.device))
            except pynvml.NVMLError:
                uuid = ""
            if uuid:
                self._xids[uuid] = _with(self._xids.get(uuid, ()), xid)
            else:
                self._stray = _with(self._stray, xid)

    def _read(self) -> NvmlFacts:
        driver = _text(pynvml.nvmlSystemGetDriverVersion())
        gpus: list[NvmlGpu] = []
        problems: list[Problem] = []
        for index in range(min(pynvml.nvmlDeviceGetCount(), GPUS_MAX)):
            try:
                gpus.append(self._gpu(index))
            except pynvml.NVMLError as error:
                problems.append(Problem(field=f"nvml.devices[{index}]", message=f"cannot be asked: {error}"))
        there = {gpu.uuid for gpu in gpus}
        was_away = self._watched.keys() - there
        self._xids = {uuid: xids for uuid, xids in self._xids.items() if uuid in there}
        self._watched = {uuid: reports for uuid, reports in self._watched.items() if uuid in there}
        facts = NvmlFacts(gpus=tuple(gpus), driver=driver, stray_xids=self._stray)
        self.problems = tuple(problems)
        if was_away and not there:
            self._stray = ()
        if problems and self._opened_s is not None and self._monotonic() - self._opened_s >= OPEN_EVERY_S:
            self.close()
        return facts

    def _gpu(self, index: int) -> NvmlGpu:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        uuid = _text(pynvml.nvmlDeviceGetUUID(handle))
        if uuid not in self._watched:
            self._watched[uuid] = self._watch(handle)
        module: int | None = None
        with contextlib.suppress(pynvml.NVMLError):
            module = int(pynvml.nvmlDeviceGetModuleId(handle))
        peers, is_switched = _links(handle)
        return NvmlGpu(
            uuid=uuid,
            minor=int(pynvml.nvmlDeviceGetMinorNumber(handle)),
            memory=int(pynvml.nvmlDeviceGetMemoryInfo(handle).total),
            bus=_text(pynvml.nvmlDeviceGetPciInfo(handle).busId),
            name=_text(pynvml.nvmlDeviceGetName(handle)),
            module=module,
            xids=self._xids.get(uuid, ()),
            tells_health=self._watched[uuid],
            is_split=_is_split(handle),
            peers=peers,
            is_switched=is_switched,
        )

    def _watch(self, handle: Any) -> bool:
        if self._events is None:
            return False
        try:
            pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, self._events)
        except pynvml.NVMLError:
            return False
        return True


def _is_split(handle: Any) -> bool:
    """Whether a GPU is in MIG mode; most know no such mode, and older drivers not the question. Raises NVMLError."""
    try:
        return bool(pynvml.nvmlDeviceGetMigMode(handle)[0] == pynvml.NVML_DEVICE_MIG_ENABLE)
    except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound):
        return False


def _links(handle: Any) -> tuple[tuple[str, ...], bool]:
    """Where active NVLinks lead: the PCI addresses of GPUs, and whether to a switch. Raises NVMLError.

    A link that the GPU does not have ends the list. One whose other end cannot be asked leads nowhere.
    """
    peers: set[str] = set()
    is_switched = False
    for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
        try:
            if pynvml.nvmlDeviceGetNvLinkState(handle, link) != pynvml.NVML_FEATURE_ENABLED:
                continue
            if _end(handle, link) == pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
                is_switched = True
            else:
                peers.add(_text(pynvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link).busId))
        except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_InvalidArgument, pynvml.NVMLError_FunctionNotFound):
            break
        except pynvml.NVMLError_GpuIsLost:
            raise
        except pynvml.NVMLError:
            continue
    return tuple(sorted(peers)), is_switched


def _end(handle: Any, link: int) -> int | None:
    """What is at a link's other end; None: the driver is older than the question."""
    try:
        return int(pynvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, link))
    except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound):
        return None


def _with(xids: tuple[int, ...], xid: int) -> tuple[int, ...]:
    return xids if xid in xids or len(xids) >= XIDS_MAX else (*xids, xid)


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
