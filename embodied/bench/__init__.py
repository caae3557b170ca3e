"""`python -m embodied.bench`: environment steps per second."""
