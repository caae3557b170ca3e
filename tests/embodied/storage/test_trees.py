import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from embodied.errors import CheckpointError
from embodied.storage.checkpoints import flatten, unflatten

TREE = {
    "policy": {"weight": torch.arange(6.0).reshape(2, 3), "none": {}},
    "rng": {"key": jax.random.PRNGKey(7), "half": jnp.ones(3, jnp.bfloat16)},
    "numpy": {"mask": np.array([True, False]), "empty": np.zeros((0, 4)), "scalar": np.float64(0.1)},
    "steps": 2**62,
    "ratio": 0.1,
    "done": True,
}


def bits(value) -> bytes:
    """The memory of a leaf, whatever kind it is."""
    return value.numpy().tobytes() if isinstance(value, torch.Tensor) else np.asarray(value).tobytes()


def test_flatten_joins_keys_and_keeps_dtypes():
    flat = flatten(TREE)
    assert {name: (tensor.dtype, tuple(tensor.shape)) for name, tensor in flat.items()} == {
        "policy/weight": (torch.float32, (2, 3)),
        "policy/none/": (torch.uint8, (0,)),
        "rng/key": (torch.uint32, (2,)),
        "rng/half": (torch.bfloat16, (3,)),
        "numpy/mask": (torch.bool, (2,)),
        "numpy/empty": (torch.float64, (0, 4)),
        "numpy/scalar": (torch.float64, ()),
        "steps": (torch.int64, ()),
        "ratio": (torch.float64, ()),
        "done": (torch.bool, ()),
    }


def test_unflatten_gives_nested_tensors():
    tree = unflatten(flatten(TREE))
    assert tree["policy"]["none"] == {}
    assert torch.equal(tree["policy"]["weight"], TREE["policy"]["weight"])
    assert tree["steps"].item() == 2**62
    assert flatten(tree).keys() == flatten(TREE).keys()


def test_unflatten_like_restores_kinds_and_bits():
    tree = unflatten(flatten(TREE), like=TREE)

    def same(a, b):
        if isinstance(b, dict):
            assert a.keys() == b.keys()
            for key in b:
                same(a[key], b[key])
            return
        assert type(a) is type(b)
        assert (isinstance(b, bool | int | float) and not isinstance(b, np.generic)) or a.dtype == b.dtype
        assert bits(a) == bits(b)

    same(tree, TREE)
    draw = jax.random.normal(TREE["rng"]["key"], (4,))
    assert bits(jax.random.normal(tree["rng"]["key"], (4,))) == bits(draw)


def test_restored_arrays_own_their_memory():
    flat = {"j": torch.zeros(1024), "n": torch.zeros(1024)}
    tree = unflatten(flat, like={"j": jnp.zeros(1024), "n": np.zeros(1024, np.float32)})
    for tensor in flat.values():
        tensor.fill_(1)
    assert float(tree["j"].sum()) == float(tree["n"].sum()) == 0


@pytest.mark.parametrize("seed", range(5))
def test_random_trees_come_back(seed):
    rng = np.random.default_rng(seed)

    def tree(depth: int):
        if depth == 0 or rng.random() < 0.3:
            shape = tuple(rng.integers(0, 4, rng.integers(0, 4)))
            dtype = rng.choice(["float32", "int64", "uint32", "bool", "float64", "uint8", "int8", "float16"])
            return rng.integers(0, 2, shape).astype(dtype)
        return {f"k{i}": tree(depth - 1) for i in range(rng.integers(0, 4))}

    original = {"a": tree(3), "b": tree(3)}
    flat = flatten(original)
    assert unflatten(dict(reversed(flat.items()))).keys() == original.keys()
    again = flatten(unflatten(flat, like=original))
    assert {k: (v.dtype, v.shape, bits(v)) for k, v in flat.items()} == {
        k: (v.dtype, v.shape, bits(v)) for k, v in again.items()
    }


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"a": {1: 2}}, "cannot store the key 1 in 'a': keys are non-empty strings without '/'"),
        ({"a/b": 1}, "cannot store the key 'a/b': keys are non-empty strings without '/'"),
        ({"": 1}, "cannot store the key '': keys are non-empty strings without '/'"),
        ({"a": {"b": "text"}}, "'a/b' is a str; expected a tensor, an array or a number (other values belong in the"),
        ({"a": [1]}, "'a' is a list; expected a tensor"),
        ({"a": None}, "'a' is a NoneType; expected a tensor"),
        ({"a": 2**63}, "'a' is 9223372036854775808, which exceeds 64 bits; store it in the metadata"),
        ({"a": np.array(["x"])}, "'a' has dtype <U1, which torch lacks; store plain numbers"),
        ({"a": np.array([None])}, "'a' has dtype object, which torch lacks; store plain numbers"),
        (
            {"k": jax.random.key(0)},
            "'k' has dtype key<fry>, which torch lacks; store plain numbers (of a typed JAX key",
        ),
    ],
)
def test_flatten_refuses_by_name(tree, message):
    with pytest.raises(CheckpointError) as raised:
        flatten(tree)
    assert str(raised.value).startswith(message)


Z = torch.zeros(2)


@pytest.mark.parametrize(
    ("flat", "like", "message"),
    [
        ({"a": Z, "a/b": Z}, None, "'a/b' lies below another entry's name; an entry is a tensor or a folder"),
        ({"a/b": Z, "a": Z}, None, "'a' has entries below its own name; an entry is a tensor or a folder"),
        ({"a": Z}, {"b": Z}, "the checkpoint lacks b and holds unexpected a"),
        ({"x/a": Z}, {"x": {"a": Z, "b": Z}}, "the checkpoint at 'x' lacks b"),
        ({"x/a": Z}, {"x": Z}, "'x' is a folder in the checkpoint, expected an array"),
        ({"x": Z}, {"x": {"a": Z}}, "'x' is an array in the checkpoint, expected a folder"),
        ({"x/a": Z}, {"x": {"a": torch.zeros(3)}}, "'x/a' is float32 (2,) in the checkpoint, expected float32 (3,)"),
        ({"a": Z}, {"a": Z.double()}, "'a' is float32 (2,) in the checkpoint, expected float64 (2,)"),
        ({"a": Z}, {"a": 1}, "'a' is float32 (2,) in the checkpoint, expected int64 ()"),
    ],
)
def test_unflatten_says_where_structures_differ(flat, like, message):
    with pytest.raises(CheckpointError) as raised:
        unflatten(flat, like)
    assert str(raised.value) == message
