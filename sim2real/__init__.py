"""From a trained policy to a robot, and from a robot's log back to a better simulation."""

from embodied.registry import Registry


def register(registry: Registry) -> None:
    """Register the wrapper that puts a task on a calibrated robot."""
    registry.register_wrapper("calibration", "sim2real.identification.calibrated:from_file")
