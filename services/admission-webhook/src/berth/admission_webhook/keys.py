"""Key and certificate of a replica. The key is made here, is nobody else's, and ends with the process.

Python's TLS reads both from a file: one in memory where the system has that, else one that is gone once it is read.
"""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import os
import secrets
import ssl
import tempfile
from collections.abc import Iterator
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

NAME: Final = "admission-webhook.berth.sh"
_SKEW: Final = datetime.timedelta(hours=1)
"""The API server's clock may be behind."""


class Certificate(NamedTuple):
    """A certificate and its key, as PEM. `fingerprint` is its SHA-256; `ends_at` is Unix time."""

    fingerprint: str
    pem: str
    key: bytes
    ends_at: float


def make(host: str, now: float, lifetime_s: float) -> Certificate:
    """A key, and a certificate by itself for the name or address under which the replica is called."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    began = datetime.datetime.fromtimestamp(now, datetime.UTC)
    ends = began + datetime.timedelta(seconds=lifetime_s)
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
    public = key.public_key()
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(began - _SKEW)
        .not_valid_after(ends)
        .add_extension(x509.SubjectAlternativeName([_named(host)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(public), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Certificate(
        fingerprint=certificate.fingerprint(hashes.SHA256()).hex(),
        pem=certificate.public_bytes(serialization.Encoding.PEM).decode(),
        key=key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
        ends_at=ends.timestamp(),
    )


def seal_key() -> bytes:
    """What this replica seals marks with."""
    return secrets.token_bytes(32)


def serve_with(context: ssl.SSLContext, certificate: Certificate) -> None:
    """Whoever connects from now on is shown this certificate."""
    with _file(certificate.pem.encode() + certificate.key) as path:
        context.load_cert_chain(path)


def server_context() -> ssl.SSLContext:
    """What a server speaks, without a certificate yet."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _named(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


@contextlib.contextmanager
def _file(content: bytes) -> Iterator[str]:
    """A path that holds this for a moment."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("certificate", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield file.name
