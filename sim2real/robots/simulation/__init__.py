"""Simulated robots to deploy on: engine and clock, actuators and sensors, mismatch, the task's own evaluation."""
