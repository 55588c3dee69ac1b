import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.telemetry.redaction import HIDDEN, ITEMS_MAX, TEXT_LENGTH_MAX, is_secret, redacted, redacted_text

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "nats_password",
        "NATS_PASSWORD",
        "accessToken",
        "Authorization",
        "api_key",
        "client-secret",
        "nkey_seed",
    ],
)
def test_secret_names(name):
    assert is_secret(name)
    assert redacted(name, "hunter2") == HIDDEN


@pytest.mark.parametrize(
    "name", ["nats_password_file", "pod", "key", "secret_name", "tokens", "seed", "keys", "", "passwordless", "node"]
)
def test_other_names(name):
    assert not is_secret(name)
    assert redacted(name, "value") == "value"


def test_secrets_inside_values():
    value = {"user": "a", "auth": [{"password": "hunter2"}], "url": "nats://a:hunter2@bus:4222"}
    assert redacted("settings", value) == {
        "user": "a",
        "auth": [{"password": HIDDEN}],
        "url": f"nats://{HIDDEN}@bus:4222",
    }


@pytest.mark.parametrize(
    "text",
    [
        "connect to nats://user:hunter22@bus:4222 failed",
        "header Authorization: Bearer hunter22hunter22",
        "authorization=Basic hunter22==",
        "{'Authorization': 'Bearer hunter22'}",
        "sent bearer hunter22-x.y",
    ],
)
def test_credentials_in_texts(text):
    assert "hunter22" not in redacted_text(text)
    assert HIDDEN in redacted_text(text)


def test_ordinary_texts_stay():
    for text in ("basic scheduling of pods", "http://bus:4222/path@x", "a@b.example", "token bucket is empty"):
        assert redacted_text(text) == text


def test_limits():
    assert len(redacted_text("x" * 10**6)) < TEXT_LENGTH_MAX + 50
    assert len(redacted("items", list(range(10**4)))) == ITEMS_MAX
    deep = value = {}
    for _ in range(50):
        value["next"] = {}
        value = value["next"]
    assert str(redacted("deep", deep)).count("next") <= 6


@given(JSON)
def test_a_password_never_survives(value):
    assert "s3cr3t-value" not in str(redacted("wrapper", {"inner": value, "password": "s3cr3t-value"}))
