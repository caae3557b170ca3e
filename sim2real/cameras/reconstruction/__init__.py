"""Layouts of coloured blocks on a table, from a calibrated camera's picture; see `python -m sim2real.reconstruct`."""
