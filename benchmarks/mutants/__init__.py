"""Share of small faults that the tests catch: forty lines of the library, drawn by a seed, are changed one at a time.

`drawing` lists the changes, `reach` finds which tests execute each changed line, `__main__` runs them.
"""
