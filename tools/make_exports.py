"""Makes tests/fuzz/seeds/exported/: what jax.export serialises of small programs, by the release of JAX that runs this.

  make_exports.py        (needs jax and flatbuffers)

Paths are cut to their last part, so that none of a machine gets in.
"""
import os

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
import jax
import jax.numpy as jnp
import numpy as np
from jax import export
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")
HERE = os.path.dirname(os.path.abspath(__file__))
SEEDS = os.path.join(HERE, "..", "tests", "fuzz", "seeds", "exported")


def write(name, exported, **how):
    release = ".".join(jax.__version__.split(".")[:2])
    with open(os.path.join(SEEDS, f"{name}.{release}.jax_export"), "wb") as out:
        out.write(exported.serialize(**how))


def of(dtype, *shape):
    return jax.ShapeDtypeStruct(shape, dtype)


@jax.jit
def trees(a, b):
    return {"s": jnp.sin(a) @ b["w"], "t": (a.sum(), None)}


@jax.jit
def grow(x):
    return x + x.shape[0]


def pair(a, unused, b):
    return a * 2, b + 1


def main():
    os.makedirs(SEEDS, exist_ok=True)
    write("trees", export.export(trees)(of(jnp.float32, 3, 4), {"w": of(jnp.float32, 4, 5)}))
    (b,) = export.symbolic_shape("b")
    write("dynamic", export.export(grow, platforms=["cpu", "cuda"])(of(jnp.bfloat16, b, 4)))
    mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("x", "y"))
    rows, both = NamedSharding(mesh, P("x", None)), NamedSharding(mesh, P(("x", "y")))
    sharded = jax.jit(pair, in_shardings=(rows, None, both), out_shardings=(rows, None))
    write("sharded", export.export(sharded)(of(jnp.float32, 8, 4), of(jnp.int32), of(jnp.float32, 8)))
    write("derivatives", export.export(jax.jit(jnp.sin))(of(jnp.float32, 2)), vjp_order=2)
    write("key", export.export(jax.jit(lambda key: jax.random.clone(key)))(jax.random.key(0)))


main()
