"""A task's own functions as a computation graph that runs without JAX: by numpy, as ONNX, as C99."""
