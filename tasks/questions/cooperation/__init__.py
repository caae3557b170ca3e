"""Cooperation: which robots a goal needs, in what order they act, along which path; and when to ask first."""
