"""Subjects and keys: how names become tokens, and every builder. Nobody formats a subject by hand.

A token carries any text: letters, digits and `-` stand for themselves, a dot (common in node names) becomes `_`, the
empty text becomes `=`, every other byte of its UTF-8 becomes `=` and two upper-case hex digits. The result is legal in
NATS subjects and in KV keys, and `unescape` gives the text back.
"""

from __future__ import annotations

import re
from functools import lru_cache

PREFIX = "berth.v1"
TOKEN_BYTES_MAX = 1024
"""Longest escaped token; longer names are refused at the door, since a subject has to fit one protocol line."""

_PLAIN = re.compile(r"[A-Za-z0-9-]+")
_EPOCH = re.compile(r"e(\d{1,18})\.")
_HEX = re.compile(r"=([0-9A-F]{2})")


@lru_cache(maxsize=65536)
def escape(text: str) -> str:
    """One token for any text. Raises ValueError for half a surrogate pair, and above `TOKEN_BYTES_MAX`."""
    if _PLAIN.fullmatch(text) and len(text) <= TOKEN_BYTES_MAX:
        return text
    if not text:
        return "="
    token = "".join(map(_escape_char, text)) if len(text) <= TOKEN_BYTES_MAX else text
    if len(token) > TOKEN_BYTES_MAX:
        raise ValueError(
            f"name of {len(text)} characters does not fit a subject token (at most {TOKEN_BYTES_MAX} bytes)"
        )
    return token


def _escape_char(char: str) -> str:
    if char == ".":
        return "_"
    if char.isascii() and (char.isalnum() or char == "-"):
        return char
    return "".join(f"={byte:02X}" for byte in char.encode())


@lru_cache(maxsize=65536)
def unescape(token: str) -> str:
    """The text that `escape` made this token from. Raises ValueError for a token that `escape` cannot produce."""
    if token == "=":
        return ""
    raw = _HEX.sub(lambda match: chr(int(match[1], 16)), token.replace("_", "."))
    try:
        text = raw.encode("latin-1").decode()
    except (UnicodeEncodeError, UnicodeDecodeError) as error:
        raise ValueError(f"not an escaped token: {token!r}") from error
    if escape(text) != token:
        raise ValueError(f"not an escaped token: {token!r}")
    return text


def key(*tokens: str) -> str:
    """A KV key or subject tail: every part escaped, joined by dots; at least one part."""
    return ".".join(map(escape, tokens))


def parts(text: str) -> tuple[str, ...]:
    """The parts that `key` joined. Raises ValueError for what `key` cannot produce."""
    return tuple(map(unescape, text.split(".")))


# --- STATE, INVENTORY, QUOTA, RESERVATION, SLO, METRICS, PRICE -------------------------------------------------------


def pod_key(namespace: str, name: str) -> str:
    """STATE: a pod."""
    return f"pod.{escape(namespace)}.{escape(name)}"


def namespaced_key(kind: str, namespace: str, name: str) -> str:
    """STATE: an object of a namespaced kind (`podgroup`, `elasticquota`, `configmap`, `poddisruptionbudget`)."""
    return f"{kind}.{escape(namespace)}.{escape(name)}"


def named_key(kind: str, name: str) -> str:
    """All but QUOTA and the ledger: an object of a cluster-scoped kind (`node`, `device`, `reservation`)."""
    return f"{kind}.{escape(name)}"


def node_pod_key(node: str, uid: str) -> str:
    """SLO: a pod, for the agent of its node."""
    return f"pod.{escape(node)}.{escape(uid)}"


def synced_key(kind: str) -> str:
    """STATE: the marker that says through which version a kind is complete; its plural (`pods`, `elasticquotas`)."""
    return f"synced.{kind}"


def quota_key(tree: str, group: str) -> str:
    """QUOTA: a group of a tree."""
    return f"group.{escape(tree)}.{escape(group)}"


def charge_key(class_id: str) -> str:
    """QUOTA: what hooks say of a class of pods."""
    return f"charge.{class_id}"


def prices_key(solver: str) -> str:
    """PRICE: the table of a solver."""
    return f"prices.{escape(solver)}"


# --- LEDGER ----------------------------------------------------------------------------------------------------------

EPOCH_KEY = "epoch"
QUOTA_ACCOUNTS = "quota."
"""What the names of quota groups' accounts begin with."""
COUNTED = (EPOCH_KEY, "*.decision.>", "*.plan.>", f"*.account.{QUOTA_ACCOUNTS}>")
"""LEDGER: patterns of all keys but the stamps of nodes and Reservations, whose content says nothing to anybody."""


def epoch_prefix(epoch: int) -> str:
    """LEDGER: what every key of this epoch begins with."""
    return f"e{epoch}."


def epoch_of(key: str) -> int | None:
    """The epoch that a key of the ledger belongs to; None for one that belongs to none."""
    found = _EPOCH.match(key)
    return int(found[1]) if found else None


def decision_key(epoch: int, namespace: str, name: str) -> str:
    """LEDGER: the decision on a pod; a Reservation has the empty namespace."""
    return f"e{epoch}.decision.{escape(namespace)}.{escape(name)}"


def plan_key(epoch: int, plan: str) -> str:
    """LEDGER: the entry of a plan."""
    return f"e{epoch}.plan.{escape(plan)}"


def account_key(epoch: int, account: str) -> str:
    """LEDGER: the stamp of an account, given as `node_account` and its siblings name it."""
    return f"e{epoch}.account.{account}"


def node_account(node: str) -> str:
    """The account of a node."""
    return f"node.{escape(node)}"


def quota_account(tree: str, group: str) -> str:
    """The account of a quota group."""
    return f"{QUOTA_ACCOUNTS}{escape(tree)}.{escape(group)}"


def reservation_account(name: str) -> str:
    """The account of a reservation."""
    return f"reservation.{escape(name)}"


def peers_account(namespace: str = "") -> str:
    """The account of the pods of a namespace, as far as they keep others away, or look for them; with no namespace that
    of pods whose terms reach into several."""
    return f"peers.{escape(namespace)}"


def volume_account(name: str) -> str:
    """The account of a PersistentVolume, charged by whoever keeps it for a claim."""
    return f"volume.{escape(name)}"


def claim_account(namespace: str, name: str) -> str:
    """The account of a PersistentVolumeClaim that one decision alone may bind, or one pod alone may use."""
    return f"claim.{escape(namespace)}.{escape(name)}"


def budget_account(namespace: str, name: str) -> str:
    """The account of a PodDisruptionBudget, charged by a nomination whose victims it selects."""
    return f"budget.{escape(namespace)}.{escape(name)}"


def gang_account(gang_id: str) -> str:
    """The account of a strict gang (`namespace/name`), charged by a nomination for which members of it leave."""
    return f"gang.{escape(gang_id)}"


# --- subjects of streams and questions -------------------------------------------------------------------------------


def event_subject(noun: str, verb: str, *ids: str) -> str:
    """`berth.v1.evt.<noun>.<verb>.<ids>`, kept in BERTH_EVT."""
    return ".".join((f"{PREFIX}.evt.{noun}.{verb}", *map(escape, ids)))


def command_subject(verb: str, *ids: str) -> str:
    """`berth.v1.cmd.<verb>.<ids>`, kept in BERTH_CMD until acknowledged."""
    return ".".join((f"{PREFIX}.cmd.{verb}", *map(escape, ids)))


def question_subject(service: str, verb: str) -> str:
    """`berth.v1.svc.<service>.<verb>`: request and reply, not stored."""
    return f"{PREFIX}.svc.{service}.{verb}"
