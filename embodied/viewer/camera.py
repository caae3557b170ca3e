"""Visitors' points of view, and the server that they visit."""

from __future__ import annotations

import asyncio
import contextlib
import io
import ipaddress
import logging
import socket
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import viser
from websockets.asyncio import server as websockets_server
from websockets.asyncio.server import ServerConnection
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from embodied.errors import EmbodiedError

NEAREST = 0.005  # m from the camera, what is still drawn


def look(server: viser.ViserServer, position: np.ndarray, lookat: np.ndarray, fov: float) -> None:
    """Let visitors look from `position` to `lookat` (3,) m, those who are here and those who come; `fov` rad high."""
    first = server.initial_camera
    first.up, first.near, first.fov = (0.0, 0.0, 1.0), NEAREST, fov
    first.position, first.look_at = position, lookat
    for client in server.get_clients().values():
        with client.atomic():
            client.camera.position, client.camera.look_at, client.camera.fov = position, lookat, fov


def look_along(server: viser.ViserServer, position: np.ndarray, wxyz: np.ndarray, fov: float) -> None:
    """Let visitors look from `position` (3,) m along +z of an orientation wxyz (4,); `fov` rad high."""
    for client in server.get_clients().values():
        with client.atomic():
            client.camera.wxyz, client.camera.position, client.camera.fov = wxyz, position, fov


def start_server(host: str, port: int) -> viser.ViserServer:
    """A quiet viser server, which lets in its own pages alone.

    Raises:
        EmbodiedError: no port is free, or the address is not this machine's.
    """
    try:
        # viser binds in a thread of its own and would wait for ever for one that has failed.
        socket.create_server((host, 0)).close()
        with quiet(), _watched(host):  # its banner names the address; we print it ourselves
            return viser.ViserServer(host=host, port=port, label="embodied", verbose=False)
    except (OSError, RuntimeError) as error:
        raise EmbodiedError(f"cannot open the viewer on {host}:{port}: {error}") from error


@contextlib.contextmanager
def _watched(host: str) -> Iterator[None]:
    """Let the server that viser starts meanwhile look at who comes, and keep what they send off the console."""
    given = websockets_server.serve

    def serve(handler: Any, *address: Any, process_request: Any, **options: Any) -> Any:
        async def handle(connection: ServerConnection) -> None:
            asyncio.get_running_loop().set_exception_handler(_note)  # of tasks in which viser reads messages
            await handler(connection)

        def check(connection: ServerConnection, request: Request) -> Response | None:
            if (why := refusal(request.headers, host)) is not None:
                return connection.respond(HTTPStatus.FORBIDDEN, f"{why}\n")
            return process_request(connection, request)

        return given(handle, *address, process_request=check, logger=_log, **options)

    websockets_server.serve = serve  # viser passes nothing through
    try:
        yield
    finally:
        websockets_server.serve = given


_log = logging.getLogger("embodied.viewer")
"""Where tracebacks of what clients sent go: one that is no page of ours would fill the console."""
_log.addHandler(logging.NullHandler())
_log.propagate = False


def _note(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    del loop
    _log.warning("%s", context.get("exception") or context["message"])


def refusal(headers: Headers, host: str) -> str | None:
    """Why a request does not come from a page of this server; None: it does, or from no page at all.

    Another site's page in the user's browser may call this server (its `Origin` is not ours), also by a name of that
    site which leads to this machine's address (its `Host` is that name).

    Args:
        host: Address that the server listens on.
    """
    called, origins = headers.get_all("Host"), headers.get_all("Origin")
    machine = socket.gethostname()
    names = {known.lower() for known in (host, "localhost", machine, f"{machine}.local")}
    for place in called:
        name = urlsplit(f"//{place}").hostname or ""
        if name not in names and not _is_address(name):
            return f"called by the name {name}; expected localhost, {machine}, an address, or the name given as --host"
    for origin in origins:
        if [urlsplit(origin).netloc] != called:
            return f"a page of {origin} may not call {', '.join(called)}"
    if headers.get("Upgrade") and not headers.get("Sec-WebSocket-Protocol", "").startswith("viser-v"):
        return "expected a page of this viewer"
    return None


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def quiet() -> contextlib.AbstractContextManager[Any]:
    """Keep what viser prints from standard output, where results belong."""
    return contextlib.redirect_stdout(io.StringIO())


def view_axes(client: viser.ClientHandle) -> tuple[np.ndarray, np.ndarray]:
    """(3,) to the right of a visitor's view and (3,) away from it, both level and of unit length."""
    away = np.asarray(client.camera.look_at) - np.asarray(client.camera.position)
    away = np.array([away[0], away[1], 0.0])
    size = float(np.linalg.norm(away))
    away = away / size if size > 1e-6 else np.array([1.0, 0.0, 0.0])
    return np.array([away[1], -away[0], 0.0]), away
