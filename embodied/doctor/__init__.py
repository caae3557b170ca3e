"""What a machine has and what is wrong with it, and an examination of its GPU: `python -m embodied.doctor`."""
