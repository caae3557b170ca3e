"""Input in the page itself: keyboard and gamepad, and a panel that begins folded on a phone.

viser reports single key presses to the server, not keys that are held, and knows no gamepads. So a script in the page
notes both in the browser's local storage, from where viser lets the server read them. viser (1.1.1) has no public way
to bring a script into the page, so one of its own messages carries it.
"""

from __future__ import annotations

import dataclasses
import json
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import viser
from viser import _messages as messages

KEY = "embodied-input"
POLLS = 20.0  # per second that a visitor's input is read
PATIENCE = 1.0  # s to wait for an answer; a page in the background does not give one
DEAD_ZONE = 0.12  # of a stick's way, around its middle
AXES = (("KeyW", "KeyS"), ("KeyA", "KeyD"), ("KeyQ", "KeyE"))
"""Keys that move each number of the command up and down."""
STICKS = (1, 0, 2)
"""Axes of a gamepad in the browser's standard layout, for the same numbers; right and down are positive there."""


class Button:
    """Function of a key, or of a button of a gamepad: names of keys as browsers have them, and their pad buttons."""

    PAUSE, PUSH, RESET, STEP = "Space", "KeyP", "KeyR", "Period"


PAD_BUTTONS = {0: Button.PUSH, 3: Button.RESET, 9: Button.PAUSE}
"""Button of a gamepad in the browser's standard layout -> key that does the same."""

# Runs before viser's own listeners, which would fly the camera with the same keys.
SCRIPT = """
(() => {
  if (window.embodiedInput) return;
  window.embodiedInput = true;
  const wanted = new Set(%(keys)s), pads = %(pads)s, held = new Set(), presses = {}, down = new Set();
  let place = null;
  const press = (code) => { presses[code] = (presses[code] || 0) + 1; };
  const typing = (e) => e.target && (e.target.isContentEditable || ["TEXTAREA", "SELECT"].includes(e.target.tagName) ||
    (e.target.tagName === "INPUT" && !["checkbox", "range", "button"].includes(e.target.type)));
  const write = (axes) => {
    if (place === null) {
      place = Object.keys(localStorage).find((name) => name.endsWith("%(key)s"));
      if (place === undefined) { place = null; return; }
    }
    localStorage.setItem(place, JSON.stringify({held: [...held], presses, axes}));
  };
  const on = (e) => {
    if (!wanted.has(e.code) || typing(e) || e.ctrlKey || e.metaKey || e.altKey) return;
    e.stopImmediatePropagation();
    if (e.type === "keydown") {
      if (e.code === "Space") e.preventDefault();
      if (!held.has(e.code)) { held.add(e.code); press(e.code); }
    } else held.delete(e.code);
    write([]);
  };
  // On a phone viser opens its panel over most of the page, narrower than it, and has no way to fold it from here.
  const fold = setInterval(() => {
    const sheet = [...document.querySelectorAll("div")].find(
      (d) => d.style.position === "fixed" && d.style.bottom === "0px" && d.style.maxHeight === "60%%");
    if (!sheet) { if (window.innerWidth > 576) clearInterval(fold); return; }
    clearInterval(fold);
    const handle = [...sheet.querySelectorAll("div")].find((d) => d.style.cursor === "pointer");
    sheet.style.width = "100%%";
    sheet.style.maxHeight = "42%%";  // leaves the middle of the page, where the robot is
    sheet.querySelectorAll("div").forEach((d) => { if (d.style.width === "20em") d.style.width = "100%%"; });
    if (handle) handle.click();
  }, 200);
  window.addEventListener("keydown", on, true);
  window.addEventListener("keyup", on, true);
  window.addEventListener("blur", () => { held.clear(); write([]); });
  setInterval(() => {
    const pad = [...(navigator.getGamepads ? navigator.getGamepads() : [])].find((p) => p && p.connected);
    if (!pad) return;
    for (const [number, code] of Object.entries(pads)) {
      const pressed = pad.buttons[number] && pad.buttons[number].pressed;
      if (pressed && !down.has(number)) press(code);
      if (pressed) down.add(number); else down.delete(number);
    }
    write([...pad.axes]);
  }, 50);
})();
"""


@dataclasses.dataclass(frozen=True)
class Deflection:
    """Deflection of keys and sticks."""

    axes: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """In [-1, 1]: forward, left, and turning left or up."""
    presses: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Key -> number of times it was pressed since the page was opened."""


class BrowserInput:
    """Reads every visitor's keyboard and gamepad, in a thread for each."""

    def __init__(self, server: viser.ViserServer, on_press: Callable[[str, viser.ClientHandle], None]) -> None:
        """Begin to listen.

        Args:
            server: The visitors' server.
            on_press: Called with the key's name when one of `Button` is pressed, in a thread of the visitor's.
        """
        self.server, self._on_press = server, on_press
        self._latest: dict[int, Deflection] = {}
        # A visitor who leaves between two reads is no warning.
        warnings.filterwarnings("ignore", message="Queued a LocalStorageGetItem", category=UserWarning)
        buttons = (Button.PAUSE, Button.PUSH, Button.RESET, Button.STEP)
        keys = json.dumps([*(key for pair in AXES for key in pair), *buttons])
        script = SCRIPT % {"keys": keys, "pads": json.dumps(PAD_BUTTONS), "key": KEY}

        @server.on_client_connect
        def _(client: viser.ClientHandle) -> None:
            client.local_storage.set_item(KEY, "")
            # How viser itself brings Plotly into the page; it has no public way.
            client.gui._websock_interface.queue_message(messages.RunJavascriptMessage(source=script))
            threading.Thread(target=self._listen, args=(client,), daemon=True).start()

    @property
    def deflection(self) -> np.ndarray:
        """(3,) of all visitors together, in [-1, 1]: forward, left, and turning left or up."""
        axes = [latest.axes for latest in list(self._latest.values())]
        return np.clip(np.sum(axes, axis=0), -1.0, 1.0) if axes else np.zeros(3)

    def _listen(self, client: viser.ClientHandle) -> None:
        seen: Mapping[str, int] = {}
        try:
            while client.client_id in self.server.get_clients():
                now = self._read(client)
                self._latest[client.client_id] = now
                for name, count in now.presses.items():
                    if count > seen.get(name, 0):
                        self._on_press(name, client)
                seen = now.presses
                time.sleep(1 / POLLS)
        except RuntimeError:  # the visitor left, or forbids local storage
            pass
        finally:
            self._latest.pop(client.client_id, None)

    def _read(self, client: viser.ClientHandle) -> Deflection:
        try:
            return parse(client.local_storage.get_item(KEY, timeout=PATIENCE))
        except TimeoutError:
            return Deflection()


def parse(text: str | None) -> Deflection:
    """Deflection that the page's script wrote; zero where it is missing or was not written by the script."""
    try:
        noted: Any = json.loads(text or "{}")
        held, axes = set(noted.get("held", ())), [float(axis) for axis in noted.get("axes", ())]
        presses = {str(name): int(count) for name, count in noted.get("presses", {}).items()}
    except (ValueError, TypeError, AttributeError):
        return Deflection()
    keyed = [float(up in held) - float(down in held) for up, down in AXES]
    sticks = [-axes[place] if place < len(axes) and abs(axes[place]) > DEAD_ZONE else 0.0 for place in STICKS]
    moved = [float(np.clip(key + stick, -1.0, 1.0)) for key, stick in zip(keyed, sticks, strict=True)]
    return Deflection((moved[0], moved[1], moved[2]), presses)
