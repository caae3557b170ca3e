"""Report on a machine and its faults, and an examination of its GPU: `python -m embodied.doctor`."""
