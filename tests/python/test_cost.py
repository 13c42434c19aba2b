"""compiled.cost_analysis(): each name and number is what XLA's HloCostAnalysis says of the same optimised program."""
# needs jax
import os
import sys
import unittest

os.environ["JAX_PLATFORMS"] = "hilo,cpu"

import jax
import jaxlib.version
import jax.numpy as jnp
from jax._src import xla_bridge
from jax._src.lib import xla_client

analyse = getattr(xla_client._xla, "hlo_module_cost_analysis", None)
if analyse is None:
  print("skipped: this jaxlib has no hlo_module_cost_analysis")
  sys.exit(77)

x, w = jnp.ones((64, 32)), jnp.ones((32, 16))
z = jnp.ones((4, 8), jnp.complex64)
image, filters = jnp.ones((2, 3, 8, 8)), jnp.ones((4, 3, 3, 3))

PROGRAMS = {
    "pointwise": (lambda x: jnp.tanh(x) * x + 1, x),
    "nothing": (lambda x: x, x),
    "integers": (lambda x: (jax.lax.clz(x), jax.lax.population_count(x), x**3, x % 7), jnp.arange(9)),
    "functions": (lambda x: (jax.lax.erf(x), jnp.arctan2(x, x + 1), x**2.5, jnp.sqrt(x), jax.lax.cbrt(x), x // 3), x),
    "complex": (lambda z: (jnp.exp(z), z * z, z.real, jax.lax.complex(z.imag, z.real), jnp.conj(z), jnp.abs(z)), z),
    "product": (lambda x, w: (jnp.tanh(x @ w), (x @ w).sum(0)), x, w),
    "sum": (lambda x: x.sum(), x),
    "argmax": (lambda x: (x.argmax(0), x.max(1)), x),
    "loop": (lambda x: jax.lax.fori_loop(0, 10, lambda i, v: jnp.sin(v) * x, x), x),
    "while": (lambda x: jax.lax.while_loop(lambda v: v.sum() < 100, lambda v: v * 2, x), x),
    "branches": (lambda x: jax.lax.cond(x[0, 0] > 0, jnp.sin, lambda v: v @ v.T @ v, x), x),
    "transpose": (lambda x: x.T, x),
    "slice": (lambda x: x[2:5] * 2, x),
    "dynamic slice": (lambda x, i: jax.lax.dynamic_slice(jnp.exp(x), (i, 0), (2, 4)) + x.sum(), x, 3),
    "update": (lambda x: jax.lax.dynamic_update_slice(x, x[:2] * 2, (3, 0)), x),
    "gather": (lambda x, i: x[i], x, jnp.array([1, 2, 3])),
    "scatter": (lambda x, i: x.at[i].add(1.), x, jnp.array([1, 2, 3])),
    "sort": (lambda x: jnp.sort(x, 0), x),
    "convolution": (jax.grad(lambda k, x: jax.nn.relu(jax.lax.conv(x, k, (2, 2), "SAME")).sum()), filters, image),
    "pooling": (jax.grad(lambda x: jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (2, 2), (2, 2), "SAME").sum()), x),
    "running sum": (lambda x: jnp.cumsum(x, 0), x),
    "random": (lambda k: jax.random.normal(k, (10,)), jax.random.key(0)),
    "fft": (lambda x: jnp.fft.fft(x), x),
    "custom calls": (lambda x: jnp.linalg.cholesky(x.T @ x + jnp.eye(32)), x),
    "constants": (lambda x: x + jnp.arange(32.) @ jnp.ones((32, 32)), x),
}


def with_tables(costs, counted, module):
  """XLA's numbers, with tables of pointers as long as their tuples: from 0.11 on it counts one pointer for each."""
  more = counted["bytes accessed"] - costs["bytes accessed"]
  if jaxlib.version.__version_info__ < (0, 11) or " tuple(" not in module.to_string() or more < 0 or more % 8:
    return costs
  return {**costs, **{key: costs[key] + more for key in ("bytes accessed", "bytes accessedout{}")}}


class Costs(unittest.TestCase):

  def test_as_xla(self):
    cpu = xla_bridge.get_backend("cpu")
    for name, (function, *args) in PROGRAMS.items():
      with self.subTest(name):
        compiled = jax.jit(function).lower(*args).compile()
        self.assertIn("hilo", compiled.runtime_executable().client.platform_version)
        costs = compiled.cost_analysis()
        costs = costs[0] if isinstance(costs, list) else costs  # before jax 0.5
        module = compiled.runtime_executable().hlo_modules()[0]
        self.assertEqual(costs, with_tables(dict(analyse(cpu, module)), costs, module))


if __name__ == "__main__":
  unittest.main()
