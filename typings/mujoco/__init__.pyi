"""MuJoCo's names come from compiled modules, of which type checkers know nothing: each is anything."""

from typing import Any

def __getattr__(name: str) -> Any: ...
