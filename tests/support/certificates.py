"""Certificates for servers of tests, and contexts that know them."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@cache
def _certificate(name: str) -> tuple[bytes, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    plain = serialization.NoEncryption()
    return made.public_bytes(pem), key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)


def of_server(name: str) -> ssl.SSLContext:
    """The context of a server of this name."""
    certificate, key = _certificate(name)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with TemporaryDirectory() as folder:
        for file, content in (("cert", certificate), ("key", key)):
            (Path(folder) / file).write_bytes(content)
        context.load_cert_chain(Path(folder) / "cert", Path(folder) / "key")
    return context


def of_client(name: str) -> ssl.SSLContext:
    """A context that trusts the server of this name, and it alone."""
    return ssl.create_default_context(cadata=_certificate(name)[0].decode())
