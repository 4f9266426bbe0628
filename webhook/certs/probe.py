"""Look which certificate a replica serves: one TLS handshake, and no request.

The certificate is not verified here: `core` decides whether it is the right one.
"""

import socket
import ssl
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

_MAX_AT_ONCE = 16


def served(endpoints: Iterable[tuple[str, int]], server_name: str, *, seconds: float) -> dict[str, bytes | str]:
    """Return for each endpoint its certificate as DER, or a text that says why it showed none."""

    def show(endpoint: tuple[str, int]) -> tuple[str, bytes | str]:
        host, port = endpoint
        name = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        return name, _certificate(host, port, server_name, seconds)

    with ThreadPoolExecutor(_MAX_AT_ONCE) as pool:
        return dict(pool.map(show, endpoints))


def _certificate(host: str, port: int, server_name: str, seconds: float) -> bytes | str:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host, port), timeout=seconds) as connection,
            context.wrap_socket(connection, server_hostname=server_name) as tls,
        ):
            return tls.getpeercert(binary_form=True) or "shows no certificate"
    except OSError as error:  # ssl.SSLError is one
        return f"does not finish a TLS handshake ({error})"
