"""`square` and `dot` on a mesh of 4 x 2 devices: which device holds what, and what they tell one another.

    JAX_PLATFORMS=hilo python pjit_square_dot.py

    square   every device squares its own block: nobody talks
    dot      rows of x lie over "rows", columns of y over "columns": nobody talks either
    inner    the summed dimension lies over "columns": the two halves of each sum are added (all-reduce)
"""
import re

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

jax.config.update("jax_num_cpu_devices", 8)


def owners(array):
    """A picture of an array: a cell is 2 x 2 elements, its text the devices that hold them."""
    cells = {}
    for shard in array.addressable_shards:
        rows, columns = (range(*s.indices(n)) for s, n in zip(shard.index, array.shape))
        for r in rows[::2]:
            for c in columns[::2]:
                cells.setdefault((r, c), []).append(shard.device.id)
    for r in range(0, array.shape[0], 2):
        line = ["+".join(map(str, sorted(cells[r, c]))) for c in range(0, array.shape[1], 2)]
        print("   ", " ".join(f"{cell:>7}" for cell in line))


def talk(compiled):
    """The collectives of a compiled program."""
    names = re.findall(r" (all-reduce|all-gather|all-to-all|reduce-scatter|collective-permute)(?:-start)?\(",
                       compiled.as_text())
    return ", ".join(sorted(set(names))) or "nothing"


def run(title, f, *args):
    compiled = jax.jit(f).lower(*args).compile()
    result = compiled(*args)
    print(f"{title}: {result.shape[0]} x {result.shape[1]}, {result.sharding.spec}, told one another: {talk(compiled)}")
    owners(result)
    return result


def main():
    mesh = jax.make_mesh((4, 2), ("rows", "columns"), axis_types=(AxisType.Auto,) * 2)
    place = lambda a, *spec: jax.device_put(a, NamedSharding(mesh, P(*spec)))
    x = jnp.arange(64.0).reshape(8, 8) / 64
    y = x.T - 0.5

    both = place(x, "rows", "columns")
    print(f"x: {both.shape[0]} x {both.shape[1]}, {both.sharding.spec}")
    owners(both)

    square = run("square", jnp.square, both)
    dot = run("dot", jnp.dot, place(x, "rows", None), place(y, None, "columns"))
    inner = run("inner", jnp.dot, both, place(y, "columns", None))

    shard = dot.addressable_shards[3]
    print(f"device {shard.device.id} holds rows {shard.index[0].start}-{shard.index[0].stop - 1}, "
          f"columns {shard.index[1].start}-{shard.index[1].stop - 1} of dot:")
    print(shard.data)
    for name, got, expected in ("square", square, x * x), ("dot", dot, x @ y), ("inner", inner, x @ y):
        print(f"{name} as on one device:", bool(jnp.allclose(got, jax.device_put(expected, got.sharding), atol=1e-6)))


if __name__ == "__main__":
    main()
