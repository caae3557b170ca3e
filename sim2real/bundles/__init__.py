"""Contents of a bundle, and how each of its files is made and checked."""
