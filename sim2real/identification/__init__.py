"""From a log to the parameters of a twin, and from those back into a task."""
