"""The viewer's server: pages of its own come in, and what others send leaves the console clean."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import socket
from collections.abc import Iterator

import msgspec
import pytest
import viser
from websockets.asyncio.client import connect
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed, InvalidStatus

from embodied.viewer.camera import quiet, refusal, start_server

QUIET = logging.getLogger("embodied.viewer")
OWN = f"viser-v{viser.__version__}"


@pytest.fixture(scope="module")
def server() -> Iterator[viser.ViserServer]:
    server = start_server("localhost", 18140)
    yield server
    with quiet():
        server.stop()


@pytest.mark.parametrize(
    ("host", "origin", "let_in"),
    [
        ("localhost:8080", None, True),
        ("localhost:8080", "http://localhost:8080", True),
        ("127.0.0.1:8080", "http://127.0.0.1:8080", True),
        ("[::1]:8080", "http://[::1]:8080", True),
        ("10.0.0.7:8080", "http://10.0.0.7:8080", True),
        ("robots.lab:8080", "http://robots.lab:8080", True),
        (f"{socket.gethostname()}:8080", None, True),
        ("localhost:8080", "http://localhost:9000", False),
        ("localhost:8080", "https://evil.example", False),
        ("localhost:8080", "null", False),
        ("evil.example:8080", "http://evil.example:8080", False),
        ("evil.example", None, False),
    ],
)
def test_pages_of_other_sites_are_refused_also_by_their_own_name(host: str, origin: str | None, let_in: bool) -> None:
    headers = Headers(Host=host, **({} if origin is None else {"Origin": origin}))
    assert (refusal(headers, "robots.lab") is None) == let_in


def test_a_foreign_page_cannot_open_a_connection(server: viser.ViserServer) -> None:
    place = f"localhost:{server.get_port()}"

    async def visit(origin: str | None, *protocols: str) -> None:
        async with connect(f"ws://{place}", origin=origin, subprotocols=protocols):  # type: ignore[arg-type]
            pass

    asyncio.run(visit(f"http://{place}", OWN))
    for origin, *protocols in (("http://evil.example", OWN), (f"http://{place}",)):
        with pytest.raises(InvalidStatus, match="403"):
            asyncio.run(visit(origin, *protocols))


def test_rubbish_leaves_the_console_clean(
    server: viser.ViserServer, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    port, slider = server.get_port(), server.gui.add_slider("speed", 0.0, 1.0, 0.1, 0.5)
    texts = (b"\0" * 200, b"GET / HTTP/9\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a b\r\nHost: c\r\n\r\n", b"A" * 10_000)
    for text in texts:
        with socket.create_connection(("localhost", port)) as client:
            client.sendall(text)
    changed = {"type": "GuiUpdateMessage", "uuid": slider._impl.uuid}
    messages = [{}, {"type": "Nope"}, 3, changed, changed | {"updates": {"value": "fast"}}, changed | {"updates": 3}]
    sent: list[str | bytes] = ["words", b"", b"\xc1", *map(msgspec.msgpack.encode, messages)]

    async def send() -> None:
        for message in sent:
            async with connect(f"ws://localhost:{port}", subprotocols=[OWN]) as client:  # type: ignore[list-item]
                await client.send(message)
                with contextlib.suppress(TimeoutError, ConnectionClosed):
                    await asyncio.wait_for(client.recv(), 0.05)

    with caplog.at_level(logging.ERROR):
        asyncio.run(send())
        gc.collect()  # where a task's exception is noticed
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "")
    assert {record.name for record in caplog.records} == {QUIET.name}, "whose records nothing prints"
    assert not QUIET.propagate
    assert slider.value == 0.5
