"""Logs: channels over time, from and to files, brought to common times and delays."""
