"""The reference bytes of the interface: messages, frames, the mask of events."""

from __future__ import annotations

from typing import Any

import pytest

from berth.nri import api_pb2 as api
from berth.nri.core import mux, session, ttrpc
from berth.nri.core.methods import Event, event_mask
from berth.testing.vectors import cases


def message(given: dict[str, Any]) -> ttrpc.Message:
    payload = bytes.fromhex(given.get("payload_hex", ""))
    if given["what"] == "ttrpc_response":
        return session.response(given["stream_id"], payload)
    return session.request(
        given["stream_id"], given["service"], given["method"], payload, given.get("timeout_nano", 0) / 1e9
    )


def of_frames(given: dict[str, Any]) -> dict[str, str]:
    data = ttrpc.encode(message(given))
    return {"ttrpc_hex": data.hex(), "mux_hex": mux.encode(given["conn_id"], data).hex()}


def of_mask(given: dict[str, Any]) -> dict[str, int]:
    return {"mask": event_mask(Event[each] if isinstance(each, str) else Event(each) for each in given["events"])}


def of_registration(given: dict[str, Any]) -> dict[str, str]:
    found = api.RegisterPluginRequest(plugin_name=given["plugin_name"], plugin_idx=given["plugin_idx"])
    return {"payload_hex": found.SerializeToString().hex()}


def of_configuration(given: dict[str, Any]) -> dict[str, str]:
    return {"payload_hex": api.ConfigureResponse(events=given["mask"]).SerializeToString().hex()}


ADAPTORS = {
    "ttrpc_request": of_frames,
    "ttrpc_response": of_frames,
    "event_mask": of_mask,
    "register_payload": of_registration,
    "configure_response": of_configuration,
}


@pytest.mark.parametrize("case", cases("node-qos/nri-wire"))
def test_bytes(case: dict[str, Any]) -> None:
    found = ADAPTORS[case["given"]["what"]](case["given"])
    assert {key: found[key] for key in case["expect"]} == case["expect"]


@pytest.mark.parametrize("case", cases("node-qos/nri-wire", lambda case: "mux_hex" in case["expect"]))
def test_bytes_are_read_again(case: dict[str, Any]) -> None:
    expect, given = case["expect"], case["given"]
    [(stream, data)] = mux.Demultiplexer().feed(bytes.fromhex(expect["mux_hex"]))
    assert stream == given["conn_id"]
    assert ttrpc.Assembler().feed(data) == [message(given)]
