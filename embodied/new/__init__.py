"""A new task of one's own: a file with a small complete task, a robot's model to begin with, and a test."""
