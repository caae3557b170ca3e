"""Path finding: a maze of columns, the task in it, and its script."""
