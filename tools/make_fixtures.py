"""Makes tests/fixtures/: small real programs, each as a jaxpr, as StableHLO (text and portable artifact), with its HLO
before and after XLA's optimiser, its HloModuleProto, the inputs of one run and XLA:CPU's results.

  make_fixtures.py [NAME...]          (needs jax; make venv)

The arrays are a0, a1, ... (parameters) in args.npz and r0, r1, ... (flattened results) in results.npz.
File names in the metadata are cut to their last part, so that no path of a machine gets in.
"""
import json
import os
import re
import sys

os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import jax.numpy as jnp
from jaxlib import _jax
import numpy as np

jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")
jax.config.update("jax_default_matmul_precision", "float32")
HERE = os.path.dirname(os.path.abspath(__file__))
FIXTURES = os.path.join(HERE, "..", "tests", "fixtures")


def normal(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def mlp_train():
    """One step of gradient descent on a classifier of two layers."""

    def loss(params, x, labels):
        h = jax.nn.gelu(x @ params["w1"] + params["b1"])
        logits = h @ params["w2"] + params["b2"]
        return -jnp.mean(jnp.sum(jax.nn.one_hot(labels, 5) * jax.nn.log_softmax(logits), axis=-1))

    def train_step(params, x, labels):
        value, grads = jax.value_and_grad(loss)(params, x, labels)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value

    params = {"w1": normal(1, 12, 32) / 4, "b1": normal(2, 32) / 8, "w2": normal(3, 32, 5) / 6, "b2": normal(4, 5) / 8}
    return train_step, (params, normal(5, 16, 12), np.arange(16, dtype=np.int32) % 5)


def attention():
    """Causal attention of two heads with a layer norm in front."""

    def attend(x, gain, wqkv, wo):
        y = (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * gain
        q, k, v = jnp.split((y @ wqkv).reshape(2, 8, 2, 24), 3, axis=-1)
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.sqrt(8.0)
        scores = jnp.where(jnp.tril(jnp.ones((8, 8), bool)), scores, -jnp.inf)
        mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)
        return x + mixed.reshape(2, 8, 16) @ wo

    return attend, (normal(6, 2, 8, 16), normal(7, 16), normal(8, 16, 48) / 4, normal(9, 16, 16) / 4)


def while_sort():
    """A loop with a data-dependent end, a sort and integers: Collatz steps, then ranks."""

    def steps(n):
        def more(state):
            return jnp.any(state[0] != 1)

        def step(state):
            n, count = state
            after = jnp.where(n == 1, 1, jnp.where(n % 2 == 0, n // 2, 3 * n + 1))
            return after, count + (n != 1)

        _, count = jax.lax.while_loop(more, step, (n, jnp.zeros_like(n)))
        return count, jnp.argsort(count, stable=True), jnp.sort(count)[::-1]

    return steps, (np.arange(1, 25, dtype=np.int32),)


def random_bf16():
    """Threefry bits, a dropout mask and bfloat16 arithmetic."""

    def drop(key, x):
        keep = jax.random.bernoulli(jax.random.wrap_key_data(key), 0.75, x.shape)
        y = jnp.where(keep, x.astype(jnp.bfloat16) * jnp.bfloat16(1.5), 0)
        return y, y.astype(jnp.float32).sum(axis=0)

    return drop, (np.array([0, 42], np.uint32), normal(10, 8, 16))


PROGRAMS = [mlp_train, attention, while_sort, random_bf16]


def storable(array):
    array = np.asarray(array)
    return array.astype(np.float32) if array.dtype.kind == "V" or array.dtype.name.startswith(("bfloat", "float8")) else array


def make(program):
    fn, args = program()
    lowered = jax.jit(fn).lower(*args)
    compiled = lowered.compile()
    folder = os.path.join(FIXTURES, program.__name__)
    os.makedirs(folder, exist_ok=True)
    module = lowered.compiler_ir("hlo").as_hlo_module()
    texts = {"before.hlo": module.to_string(), "after.hlo": compiled.as_text()}
    for name, text in texts.items():
        assert not re.search(r'"[^"\n]*/(home|tmp|usr|root|work)/', text), f"{program.__name__}/{name} names a folder"
        with open(os.path.join(folder, name), "w") as f:
            f.write(text if text.endswith("\n") else text + "\n")
    with open(os.path.join(folder, "module.hlo.pb"), "wb") as f:
        f.write(module.as_serialized_hlo_module_proto())
    stablehlo = lowered.as_text()
    with open(os.path.join(folder, "program.mlir"), "w") as f:
        f.write(stablehlo)
    with open(os.path.join(folder, "program.mlirbc"), "wb") as f:
        f.write(_jax.mlir.serialize_portable_artifact(stablehlo, "1.13.0", False))
    with open(os.path.join(folder, "program.jaxpr"), "w") as f:
        f.write(str(jax.make_jaxpr(fn)(*args)) + "\n")
    flat = jax.tree.leaves(args)
    results = jax.tree.leaves(compiled(*args))
    np.savez(os.path.join(folder, "args.npz"), **{f"a{i}": storable(a) for i, a in enumerate(flat)})
    np.savez(os.path.join(folder, "results.npz"), **{f"r{i}": storable(r) for i, r in enumerate(results)})
    with open(os.path.join(folder, "meta.json"), "w") as f:
        json.dump({"what": program.__doc__, "jax": jax.__version__, "parameters": len(flat), "results": len(results)}, f, indent=1)
        f.write("\n")
    print(program.__name__, sum(os.path.getsize(os.path.join(folder, n)) for n in os.listdir(folder)), "bytes")


for program in PROGRAMS:
    if len(sys.argv) == 1 or program.__name__ in sys.argv[1:]:
        make(program)
