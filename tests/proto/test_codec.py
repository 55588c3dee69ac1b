"""Every message of the catalogue survives the wire; whatever else arrives is `InvalidMessage` and names the field."""

import json
import math
from typing import Any, cast

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import inspect

from berth.contracts import command, event, ledger, question, state
from berth.contracts.catalogue import CHANNELS
from berth.contracts.codec import MESSAGE_BYTES_MAX, decode, encode
from berth.contracts.errors import InvalidMessage

MESSAGES: dict[str, type[msgspec.Struct]] = {channel.tag: channel.message for channel in CHANNELS}
UNIONS = (command.Command, event.Event, ledger.LedgerEntry)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
INT64 = st.integers(-(2**63), 2**63 - 1)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
SCALAR = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | FINITE | TEXT
JSON = st.recursive(SCALAR, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3))


def values(kind: inspect.Type) -> st.SearchStrategy[Any]:
    """Values that a reader of this type has to take, in the types it decodes them to."""
    match kind:
        case inspect.AnyType():
            return JSON
        case inspect.NoneType():
            return st.none()
        case inspect.BoolType():
            return st.booleans()
        case inspect.IntType():
            return INT64
        case inspect.FloatType():
            return FINITE
        case inspect.StrType():
            return TEXT
        case inspect.EnumType(cls=cls):
            return st.sampled_from(list(cls))
        case inspect.ListType(item_type=item):
            return st.lists(values(item), max_size=2)
        case inspect.DictType(value_type=value):
            return st.dictionaries(TEXT, values(value), max_size=2)
        case inspect.UnionType(types=members):
            return st.one_of([values(member) for member in members])
        case inspect.StructType():
            return structs(kind)
    raise AssertionError(f"no values for {kind}")


def structs(kind: inspect.StructType) -> st.SearchStrategy[Any]:
    required = {field.name: values(field.type) for field in kind.fields if field.required}
    optional = {field.name: values(field.type) for field in kind.fields if not field.required}
    return st.fixed_dictionaries(required, optional=optional).map(lambda fields: kind.cls(**fields))


STRATEGIES = {tag: structs(cast(inspect.StructType, inspect.type_info(kind))) for tag, kind in MESSAGES.items()}


def smallest(kind: type[msgspec.Struct]) -> msgspec.Struct:
    """The message with nothing but what it must have."""
    plain = {"str": "x", "int": 1, "bool": True, "float": 1.5}
    fields: dict[str, Any] = {}
    for field in cast(inspect.StructType, inspect.type_info(kind)).fields:
        if field.required:
            if isinstance(field.type, inspect.StructType):
                fields[field.name] = smallest(field.type.cls)
                continue
            name = type(field.type).__name__.removesuffix("Type").lower()
            fields[field.name] = ledger.PlanStatus.OPEN if name == "enum" else [] if name == "list" else plain[name]
    return kind(**fields)


def broken(data: bytes, kind: Any = state.Pod) -> InvalidMessage:
    with pytest.raises(InvalidMessage) as caught:
        decode(data, kind)
    return caught.value


def pod(**fields: Any) -> bytes:
    whole = {"type": "pod.seen.v1", "namespace": "a", "name": "b", "uid": "u", "version": 1, **fields}
    return json.dumps(whole).encode()


@pytest.mark.parametrize("tag", sorted(MESSAGES))
@given(data=st.data())
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_a_message_survives_the_wire(tag: str, data: st.DataObject) -> None:
    message = data.draw(STRATEGIES[tag])
    encoded = encode(message)
    assert json.loads(encoded)["type"] == tag
    again = decode(encoded, MESSAGES[tag])
    assert again == message
    assert encode(again) == encoded


@pytest.mark.parametrize("tag", sorted(MESSAGES))
def test_defaults_are_left_out_and_come_back(tag: str) -> None:
    message = smallest(MESSAGES[tag])
    required = {field.encode_name for field in msgspec.structs.fields(message) if field.required}
    encoded = encode(message)
    assert json.loads(encoded).keys() == {"type", *required}
    assert decode(encoded, MESSAGES[tag]) == message


@pytest.mark.parametrize("tag", sorted(MESSAGES))
def test_unknown_fields_are_ignored(tag: str) -> None:
    message = smallest(MESSAGES[tag])
    with_more = {**json.loads(encode(message)), "of_next_year": {"a": [1, None, {"b": "c"}]}, "": 1}
    assert decode(json.dumps(with_more).encode(), MESSAGES[tag]) == message


def test_unknown_fields_inside_are_ignored() -> None:
    data = pod(template={"priority": 5, "later": {}}, owners=[{"name": "x", "blockOwnerDeletion": True}])
    message = decode(data, state.Pod)
    assert message.template.priority == 5
    assert message.owners[0].name == "x"


@pytest.mark.parametrize("tag", sorted(MESSAGES))
def test_another_tag_is_refused(tag: str) -> None:
    fields = json.loads(encode(smallest(MESSAGES[tag])))
    for other in ("nothing.known.v1", tag[:-1] + "999", "", *(set(MESSAGES) - {tag})):
        assert broken(json.dumps({**fields, "type": other}).encode(), MESSAGES[tag]).field == "type"


@pytest.mark.parametrize("tag", sorted(MESSAGES))
def test_each_required_field_is_missed_by_name(tag: str) -> None:
    whole = json.loads(encode(smallest(MESSAGES[tag])))
    for name in whole.keys() - {"type"}:
        rest = {field: value for field, value in whole.items() if field != name}
        error = broken(json.dumps(rest).encode(), MESSAGES[tag])
        assert (error.field, error.problem) == (name, "is missing")


@pytest.mark.parametrize("tag", sorted(MESSAGES))
def test_each_field_of_a_wrong_type_is_named(tag: str) -> None:
    whole = json.loads(encode(smallest(MESSAGES[tag])))
    for field in cast(inspect.StructType, inspect.type_info(MESSAGES[tag])).fields:
        if not isinstance(field.type, inspect.AnyType):
            data = json.dumps({**whole, field.encode_name: [[[]]]}).encode()
            assert broken(data, MESSAGES[tag]).field.split("[")[0] == field.encode_name


@pytest.mark.parametrize("union", UNIONS, ids=lambda union: "|".join(kind.__name__ for kind in union.__args__))
def test_a_union_is_told_apart_by_its_tags(union: Any) -> None:
    for kind in union.__args__:
        message = smallest(kind)
        assert decode(encode(message), union) == message
    assert broken(b'{"type":"pod.seen.v1"}', union).field == "type"
    assert broken(b"{}", union).field == "type"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"version": "1"}, "version"),
        ({"version": 1.0}, "version"),
        ({"version": True}, "version"),
        ({"version": None}, "version"),
        ({"version": 2**63}, "version"),
        ({"version": -(2**63) - 1}, "version"),
        ({"version": 10**400}, "version"),
        ({"name": 5}, "name"),
        ({"deleting": 1}, "deleting"),
        ({"template": []}, "template"),
        ({"template": {"requests": {"cpu": "1"}}}, "template.requests[...]"),
        ({"template": {"requests": {"cpu": 2**64}}}, "template.requests[...]"),
        ({"template": {"tolerations": [{}, {"tolerationSeconds": "x"}]}}, "template.tolerations[1].tolerationSeconds"),
        ({"template": {"tolerations": [{"tolerationSeconds": 2**64}]}}, "template.tolerations[0].tolerationSeconds"),
        ({"problems": [{"field": "x"}]}, "problems[0].message"),
        ({"owners": {"name": "x"}}, "owners"),
    ],
)
def test_the_field_is_named_by_its_path(fields: dict[str, Any], field: str) -> None:
    assert broken(pod(**fields)).field == field


def test_64_bits_are_taken() -> None:
    for number in (2**63 - 1, -(2**63)):
        assert decode(pod(version=number), state.Pod).version == number


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "nan", "01", "1e", "0x1", "1_000"])
def test_what_is_no_number_is_refused(number: str) -> None:
    data = b'{"type":"plan.set.v1","id":"p","status":"open","stage":' + number.encode() + b"}"
    assert "JSON" in broken(data, ledger.Plan).problem


def test_a_number_beyond_a_double_is_refused() -> None:
    data = b'{"type":"reservation.seen.v1","name":"r","uid":"u","version":1,"ttl_s":1e999}'
    assert broken(data, state.Reservation).field == "ttl_s"


@pytest.mark.parametrize(
    "data", [b"", b" ", b"null", b"[]", b"7", b'"x"', b"\xff\xfe", b"\x00", b"{", b"}", b"{}{}", b"{} x"]
)
def test_what_is_no_object_is_refused(data: bytes) -> None:
    broken(data)


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_noise_is_refused_and_nothing_else_happens(data: bytes) -> None:
    broken(data)


@settings(deadline=None)
@given(st.data())
def test_damaged_messages_are_read_or_refused(data: st.DataObject) -> None:
    whole = bytearray(pod(template={"labels": {"a": "b"}, "priority": -4}, owners=[{"name": "é"}]))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        message = decode(bytes(whole), state.Pod)
    except InvalidMessage:
        return
    assert decode(encode(message), state.Pod) == message


def test_every_cut_off_message_is_refused() -> None:
    whole = pod(template={"labels": {"a": "b"}})
    for length in range(len(whole)):
        broken(whole[:length])


@pytest.mark.parametrize("opening", ['{"a":', "["])
@pytest.mark.parametrize("field", ['"template":{"affinity":{"podAffinity":', '"unknown":'])
def test_nesting_without_end_is_refused(field: str, opening: str) -> None:
    data = pod().removesuffix(b"}") + f",{field}{opening * 100_000}".encode()
    broken(data)
    closing = {'{"a":': "1" + "}" * 100_000, "[": "]" * 100_000}[opening]
    broken(data + closing.encode() + b"}}}")


def test_a_message_that_is_too_large_is_refused() -> None:
    largest = MESSAGE_BYTES_MAX - len(pod(plan=""))
    data = pod(plan="x" * largest)
    assert len(data) == MESSAGE_BYTES_MAX
    message = decode(data, state.Pod)
    assert len(encode(message)) <= MESSAGE_BYTES_MAX
    assert "larger than" in broken(pod(plan="x" * (largest + 1))).problem
    with pytest.raises(InvalidMessage, match="larger than"):
        encode(msgspec.structs.replace(message, plan="x" * MESSAGE_BYTES_MAX))


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_json_has_no_number_for_is_not_sent(number: float) -> None:
    reservation = state.Reservation(name="r", uid="u", version=1, ttl_s=number)
    answer = question.StatusAnswer(service="s", instance="i", active=True, ready=True, facts={"a": 1, "b": number})
    zones = state.NodeResourceTopology(name="n", version=1, zones=[{"costs": [{"value": number}]}])
    for message, field in ((reservation, "ttl_s"), (answer, "facts['b']"), (zones, "zones[0]['costs'][0]['value']")):
        with pytest.raises(InvalidMessage, match="is not a finite number") as caught:
            encode(message)
        assert caught.value.field == field


def test_none_is_sent_where_it_means_something() -> None:
    patch = command.PatchNode(name="n", uid="u", labels={"null": None})
    assert decode(encode(patch), command.PatchNode) == patch


def test_half_a_surrogate_pair_is_not_sent() -> None:
    for message, field in (
        (state.Namespace(name="a\ud800", version=1), "name"),
        (state.Namespace(name="a", version=1, labels={"x": "\udfff"}), "labels['x']"),
        (state.Namespace(name="a", version=1, labels={"\ud800": "x"}), r"labels['\ud800']"),
    ):
        with pytest.raises(InvalidMessage, match="is not Unicode text") as caught:
            encode(message)
        assert caught.value.field == field


def test_nesting_without_end_is_not_sent() -> None:
    status: dict[str, Any] = {}
    inner = status
    for _ in range(100_000):
        inner["a"] = inner = {}
    with pytest.raises(InvalidMessage, match="nested too deeply"):
        encode(state.NodeMetric(name="n", version=1, status=status))
    while status:  # taken apart from outside, since a destructor of such depth is a test of the interpreter
        status = status.pop("a")
