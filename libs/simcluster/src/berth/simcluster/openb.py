"""The openb trace (cluster-trace-gpu-v2023) as Nodes, Devices and Pods.

The folder is an argument; nothing is built in and nothing is fetched. Every problem with a file is a `TraceError`
that names the file, the line and the column.
"""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from berth.simcluster.generate.build import PodRequest, device_manifest, node_manifest, pod_manifest
from berth.simcluster.store.objects import Json

PODS_PER_NODE = 512  # a replay is limited by GPUs, cpu and memory, as the trace's experiments are
_NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
_POD_OPTIONAL = ("gpu_spec", "qos", "creation_time", "deletion_time")
_GPUS_MAX = 64
_AMOUNT_MAX = 1 << 40


class TraceError(ValueError):
    """A file of the trace is missing or malformed."""


class TraceNode(NamedTuple):
    """One machine."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    model: str

    def manifests(self, *, pods: int = PODS_PER_NODE, index: int = 0) -> list[Json]:
        """The Node, and its Device if it has GPUs."""
        node = node_manifest(
            self.name,
            cpu_milli=self.cpu_milli,
            memory_mib=self.memory_mib,
            model=self.model if self.gpus else "",
            pods=pods,
            index=index,
        )
        return [node, device_manifest(self.name, self.model, self.gpus)] if self.gpus else [node]


class TracePod(NamedTuple):
    """One pod. Times are in seconds since the trace began, None where the list has no times."""

    name: str
    request: PodRequest
    qos: str
    created_s: int | None = None
    deleted_s: int | None = None

    def manifest(
        self, *, name: str = "", namespace: str = "default", annotations: dict[str, str] | None = None
    ) -> Json:
        """The Pod, under another name if one is given."""
        return pod_manifest(name or self.name, self.request, namespace=namespace, qos=self.qos, annotations=annotations)


def read_nodes(folder: Path, which: str = "gpu_node") -> list[TraceNode]:
    """`openb_node_list_<which>.csv`: `gpu_node`, or `all_node`. Names are not stable between the two lists."""
    file = folder / f"openb_node_list_{which}.csv"
    return [
        TraceNode(
            row.name("sn"),
            row.integer("cpu_milli"),
            row.integer("memory_mib"),
            row.integer("gpu", _GPUS_MAX),
            row.text("model"),
        )
        for row in _rows(file, _NODE_COLUMNS, ())
    ]


def read_pods(folder: Path, trace: str = "default") -> list[TracePod]:
    """`openb_pod_list_<trace>.csv` in the order of its rows."""
    return [_pod(row) for row in _rows(folder / f"openb_pod_list_{trace}.csv", _POD_COLUMNS, _POD_OPTIONAL)]


def _pod(row: "_Row") -> TracePod:
    gpus = row.integer("num_gpu", _GPUS_MAX)
    milli = row.integer("gpu_milli", 1000)
    if gpus == 1 and (milli == 0 or milli % 10):
        raise row.error("gpu_milli", "must be a multiple of 10 above 0 where num_gpu is 1")
    models = tuple(model for model in row.text("gpu_spec").split("|") if model)
    request = PodRequest(
        row.integer("cpu_milli"), row.integer("memory_mib"), gpus, milli if gpus == 1 else 1000, models
    )
    qos = row.text("qos")
    if qos not in ("", "LS", "BE", "Burstable", "Guaranteed"):
        raise row.error("qos", "must be LS, BE, Burstable or Guaranteed")
    created, deleted = row.optional("creation_time"), row.optional("deletion_time")
    # Burstable and Guaranteed are Kubernetes' classes; both are latency sensitive.
    return TracePod(row.name("name"), request, "LS" if qos in ("Burstable", "Guaranteed") else qos, created, deleted)


class _Row:
    """One line of a CSV file, read with errors that say where."""

    def __init__(self, file: Path, line: int, values: dict[str, str]) -> None:
        self._file = file
        self._line = line
        self._values = values

    def error(self, column: str, why: str) -> TraceError:
        return TraceError(f"{self._file}:{self._line}: column {column}: {self._values.get(column, '')!r} {why}")

    def text(self, column: str) -> str:
        return self._values.get(column, "").strip()

    def name(self, column: str) -> str:
        if not self.text(column):
            raise self.error(column, "must not be empty")
        return self.text(column)

    def integer(self, column: str, most: int = _AMOUNT_MAX) -> int:
        text = self.text(column)
        whole, _, zeros = text.partition(".")  # some exports write 1000.0
        if not (whole.isascii() and whole.isdigit()) or zeros.strip("0") or len(whole) > 15:
            raise self.error(column, "is not a non-negative integer")
        if int(whole) > most:
            raise self.error(column, f"is more than {most}")
        return int(whole)

    def optional(self, column: str) -> int | None:
        return self.integer(column) if self.text(column) else None


def _rows(file: Path, needed: Sequence[str], optional: Sequence[str]) -> Iterator[_Row]:
    reader = csv.reader(_read(file).splitlines(), strict=True)
    columns: list[str] = []
    try:
        for values in reader:
            if not columns:
                columns = values
                _check_columns(file, columns, needed)
            elif len(values) == len(columns):
                found = dict(zip(columns, values, strict=True))
                yield _Row(file, reader.line_num, {name: found[name] for name in (*needed, *optional) if name in found})
            elif values:
                raise TraceError(f"{file}:{reader.line_num}: {len(values)} columns, expected {len(columns)}")
    except csv.Error as error:
        raise TraceError(f"{file}:{reader.line_num}: {error}") from error
    if not columns:
        _check_columns(file, columns, needed)


def _check_columns(file: Path, columns: Sequence[str], needed: Sequence[str]) -> None:
    for name in needed:
        if name not in columns:
            raise TraceError(f"{file}:1: column {name} is missing; found {', '.join(columns) or 'nothing'}")


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise TraceError(f"{file}: no such file (is this the folder of the openb trace?)") from error
    except (OSError, UnicodeDecodeError) as error:
        raise TraceError(f"{file}: {error}") from error
