"""Clutter: obstruction between objects, and their removal."""
