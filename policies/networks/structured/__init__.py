"""Actors of observations with structure: teams, bodies of many forms, diffusion."""
