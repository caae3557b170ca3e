"""docs/results.md, and the figures in other pages, written from the JSON files under benchmarks/results.

Tables of many numbers are in docs/results.md and its pages only; other pages explain and link. A measured figure
without a file or a test stays out of the documents.
"""
