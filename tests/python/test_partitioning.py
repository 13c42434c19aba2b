"""Custom calls that a program partitions itself, and shardings that are looked at while it is compiled."""
# needs jax
import unittest
from importlib import metadata

from test_plugin import Case

HAS_RULES = tuple(int(part) for part in metadata.version("jax").split(".")[:2]) >= (0, 6)  # of Shardy

PROGRAM = """
    import jax, jax.numpy as jnp, numpy as np
    from jax.experimental.custom_partitioning import custom_partitioning
    from jax.sharding import NamedSharding, PartitionSpec as P
    mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))
    rows = NamedSharding(mesh, P("x"))
"""


@unittest.skipUnless(HAS_RULES, "this JAX has no sharding rules")
class Partitioning(Case):

  def test_parts(self):
    """What each device does is the program's word, and its exchanges work: a sum over all rows beside the rows."""
    self.prints(PROGRAM + """
    @custom_partitioning
    def f(x, y):
      return {"rows": x * 2 + y, "sum": x.sum(0)}

    def partition(mesh, args, result):
      print([s.sharding.shard_shape(s.shape) for s in args], [tuple(r.shape) for r in jax.tree.leaves(result)])
      def part(x, y):
        print("part", x.shape, y.shape)
        def add(k, total):
          return total + jax.lax.psum(x[k], "x")
        total = jax.lax.fori_loop(0, 2, add, jnp.zeros(4))
        return {"rows": x * 2 + y, "sum": total}
      row, whole = NamedSharding(mesh, P("x")), NamedSharding(mesh, P())
      return mesh, part, {"rows": row, "sum": whole}, (row, row)

    f.def_partition(partition, infer_sharding_from_operands=None, sharding_rule="i j, i j -> i j, j")
    x = jnp.arange(32.).reshape(8, 4)
    g = jax.jit(lambda x: f(x + 1, -x), in_shardings=rows)
    compiled = g.lower(x).compile()
    print(compiled.as_text().count("all-reduce("), "CustomSPMD" in compiled.as_text())
    out = compiled(jax.device_put(x, rows))
    print(out["rows"].sharding.shard_shape((8, 4)), out["rows"].tolist() == (x + 2).tolist(), out["sum"].tolist() == (x + 1).sum(0).tolist())
    """, """\
        [(2, 4), (2, 4)] [(8, 4), (4,)]
        part (2, 4) (2, 4)
        1 False
        (2, 4) True True
        """, JAX_PLATFORMS="hilo", JAX_NUM_CPU_DEVICES="8")

  def test_errors(self):
    """What goes wrong in it, and what does not fit, reaches the caller, each time."""
    self.prints(PROGRAM + """
    def try_it(wrong):
      @custom_partitioning
      def f(x):
        return x
      def partition(mesh, args, result):
        if wrong == "raises":
          raise KeyError("no such luck")
        return mesh, (lambda x: jnp.concatenate([x, x])), rows, (rows,)
      f.def_partition(partition, infer_sharding_from_operands=None, sharding_rule="i -> i")
      try:
        jax.jit(f, in_shardings=rows, out_shardings=rows)(jnp.arange(8.))
      except Exception as e:
        print(wrong, "no such luck" in str(e) or "Mismatch in result shapes" in str(e))
    for wrong in ["raises", "grows", "raises"]:
      try_it(wrong)
    print(jax.jit(lambda x: x + 1, in_shardings=rows)(jnp.arange(4.)))
    """, "raises True\ngrows True\nraises True\n[1. 2. 3. 4.]\n", JAX_PLATFORMS="hilo", JAX_NUM_CPU_DEVICES="8")

  def test_inspect(self):
    """Each program is asked for, also where one of the same text was compiled before."""
    self.prints(PROGRAM + """
    import functools
    seen = []
    def double(x):
      y = x * 2
      jax.debug.inspect_array_sharding(y, callback=lambda s: seen.append(s.shard_shape((8,))))
      return y
    for k in range(3):
      g = jax.jit(functools.partial(double), in_shardings=rows)
      assert g(jnp.arange(8.)).tolist() == [0, 2, 4, 6, 8, 10, 12, 14]
      del g
      jax.clear_caches()
    print(seen)
    """, "[(2,), (2,), (2,)]\n", JAX_PLATFORMS="hilo", JAX_NUM_CPU_DEVICES="8")

  def test_inspect_fails(self):
    self.prints(PROGRAM + """
    def look(s):
      raise ValueError("not that one")
    def f(x):
      jax.debug.inspect_array_sharding(x, callback=look)
      return x + 1
    try:
      jax.jit(f, in_shardings=rows)(jnp.arange(8.))
    except Exception as e:
      print("not that one" in str(e))
    """, "True\n", JAX_PLATFORMS="hilo", JAX_NUM_CPU_DEVICES="8")


if __name__ == "__main__":
  unittest.main()
