"""Drones that come to fly in one direction: each by what it sees, or all by one rule."""
