"""Visitors' points of view, and the server that they visit."""

from __future__ import annotations

import contextlib
import io
import socket
from typing import Any

import numpy as np
import viser

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
    """A quiet viser server.

    Raises:
        EmbodiedError: no port is free, or the address is not this machine's.
    """
    try:
        # viser binds in a thread of its own and would wait for ever for one that has failed.
        socket.create_server((host, 0)).close()
        with quiet():  # its banner names the address; we print it ourselves
            return viser.ViserServer(host=host, port=port, label="embodied", verbose=False)
    except (OSError, RuntimeError) as error:
        raise EmbodiedError(f"cannot open the viewer on {host}:{port}: {error}") from error


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
