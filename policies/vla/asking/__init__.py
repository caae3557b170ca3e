"""Policies that ask before they act, where an instruction fits several things."""
