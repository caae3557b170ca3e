"""Functions of JAX and networks of torch as nodes of a graph."""
