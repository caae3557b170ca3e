"""Robots behind one small interface: simulated ones in real time, and drivers of hardware."""
