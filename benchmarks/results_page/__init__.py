"""docs/results.md, and the figures in other pages, written from the JSON files under benchmarks/results."""
