"""Tells systemd how far the service is, over the socket that a unit of Type=notify gives."""

import os
import socket


def notify_systemd(state: str) -> None:
    """Send a state such as `READY=1`; does nothing where no socket is given, or nobody listens on it."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if not path.startswith(("/", "@")):
        return
    address = "\0" + path[1:] if path.startswith("@") else path
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
        try:
            sender.sendto(state.encode(), address)
        except OSError:
            return
