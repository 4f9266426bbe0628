"""Where pages listen: a port that everybody may reach, or a socket file that root alone may use.

Both raise OSError where the place cannot be had.
"""

import socket
from pathlib import Path

_BACKLOG = 4096
"""The kernel's usual limit: newcomers wait there when many come at once."""
_FOR_OWNER = 0o600


def listen_on_port(port: int) -> socket.socket:
    """Listen on every address, of IPv4 and IPv6; 0 takes any free port."""
    has_both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if has_both else socket.AF_INET
    return socket.create_server(("", port), family=family, backlog=_BACKLOG, dualstack_ipv6=has_both)


def listen_on_path(path: Path) -> socket.socket:
    """Listen on a socket file; one that is there already was left behind, and is replaced.

    Nobody can connect before `listen`, hence not before the file has its mode.
    """
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(str(path))
        path.chmod(_FOR_OWNER)
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener
