"""Things to grasp: household objects after the YCB set, and random ones."""
