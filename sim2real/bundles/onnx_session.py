"""ONNX Runtime, set up for control loops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embodied.errors import EmbodiedError

if TYPE_CHECKING:
    from onnxruntime import InferenceSession


def session(data: bytes, threads: int = 1) -> InferenceSession:
    """A runtime of a model; with one thread, since a control loop has no use for the jitter of more.

    Raises:
        ValueError: ONNX Runtime refuses the model.
        EmbodiedError: it is not installed.
    """
    try:
        import onnxruntime
    except ModuleNotFoundError:
        raise EmbodiedError('running a bundle needs onnxruntime: pip install "embodied-sim[sim2real]"') from None
    except ImportError as error:
        raise EmbodiedError(f"running a bundle needs onnxruntime, which cannot be imported: {error}") from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3  # errors; they are raised anyway
    try:
        return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"], enable_fallback=0)
    except Exception as error:  # The runtime's exceptions have no public base class.
        raise ValueError(f"ONNX Runtime refuses it: {str(error).splitlines()[0]}") from None
