"""A user's new task: a file with a small complete task, a robot's model to begin with, and a test."""
