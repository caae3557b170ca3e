"""Recorded episodes with pictures and words, and the files that hold them."""
