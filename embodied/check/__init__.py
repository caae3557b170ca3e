"""The contract of a task as checks, each of which reports in words what is wrong and where."""

from embodied.check.contract import CHECKS, Check, failures
from embodied.check.findings import Finding

__all__ = ["CHECKS", "Check", "Finding", "failures"]
