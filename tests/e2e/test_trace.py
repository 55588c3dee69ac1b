"""One trace follows a pod through the services: from the watcher's first sight to the writer's bind, over OTLP."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tests.e2e.waiting import until
from tests.e2e.whole import run_whole

pytestmark = pytest.mark.e2e

WAY = (
    ("cluster-watcher", "pod seen"),
    ("placement-solver", "placement decided"),
    ("cluster-writer", "placement bound"),
)


class Span(NamedTuple):
    service: str
    name: str
    trace: bytes
    id: bytes
    parent: bytes
    began_ns: int
    ended_ns: int
    attributes: dict[str, str]


class Collector:
    """An OTLP/HTTP receiver that remembers spans."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                outer.take(ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def take(self, request: ExportTraceServiceRequest) -> None:
        for resource in request.resource_spans:
            about = {each.key: each.value.string_value for each in resource.resource.attributes}
            for scope in resource.scope_spans:
                for span in scope.spans:
                    attributes = {each.key: each.value.string_value for each in span.attributes}
                    times = (span.start_time_unix_nano, span.end_time_unix_nano)
                    ids = (span.trace_id, span.span_id, span.parent_span_id)
                    self.spans.append(Span(about["service.name"], span.name, *ids, *times, attributes))

    def of(self, pod: str) -> dict[tuple[str, str], Span]:
        """The spans of a pod, by service and name."""
        found = [span for span in self.spans if span.attributes.get("k8s.pod.name") == pod]
        return {(span.service, span.name): span for span in found}


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    thread = threading.Thread(target=made.server.serve_forever, daemon=True)
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


async def test_one_trace_crosses_watcher_solver_and_writer(collector: Collector) -> None:
    environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_BSP_SCHEDULE_DELAY": "100"}
    async with run_whole(environment=environment) as whole, whole.corner() as corner:
        node = await corner.node("n")
        bound = await corner.bound(await corner.pod("one"), await corner.pod("two"))

        async def look() -> bool:
            return all(collector.of(name).keys() >= set(WAY) for name in ("one", "two"))

        await until(look, "the spans of both pods", timeout_s=60)

    traces = set()
    for name, pod in zip(("one", "two"), bound, strict=True):
        spans = collector.of(name)
        seen, decided, told = (spans[step] for step in WAY)
        assert {span.trace for span in (seen, decided, told)} == {seen.trace}
        assert seen.parent == b""
        assert decided.parent == told.parent == seen.id
        assert all(span.began_ns <= span.ended_ns for span in (seen, decided, told))
        assert decided.began_ns <= told.began_ns
        for span in (seen, decided, told):
            assert span.attributes["k8s.namespace.name"] == corner.namespace
            assert span.attributes["k8s.pod.uid"] == pod["metadata"]["uid"]
        for span in (decided, told):
            assert span.attributes["k8s.node.name"] == node
        traces.add(seen.trace)
    assert len(traces) == 2
