"""The contract of a task as checks, of which each says in words what is wrong and where."""

from embodied.check.contract import CHECKS, Check, failures
from embodied.check.findings import Finding

__all__ = ["CHECKS", "Check", "Finding", "failures"]
