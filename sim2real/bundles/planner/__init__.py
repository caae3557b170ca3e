"""Policies that see, as one network of a bundle: from images, an observation and an instruction to an action chunk."""
