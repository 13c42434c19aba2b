"""Programs on devices of four processes: they find each other through the store of jax.distributed, and all get one result."""
# needs jax
import os
import socket
import subprocess
import sys
import textwrap
import unittest

PROGRAM = textwrap.dedent("""
    import sys
    import jax, numpy as np, jax.numpy as jnp
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
    port, n, me = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    jax.distributed.initialize(f"127.0.0.1:{port}", n, me)
    devices = jax.devices()
    print(len(devices), [d.process_index for d in devices], [d.id for d in jax.local_devices()])
    mesh = Mesh(np.array(devices), ("x",))
    cut, whole = NamedSharding(mesh, P("x")), NamedSharding(mesh, P())
    value = np.arange(4 * len(devices), dtype=np.float32)
    x = jax.make_array_from_callback(value.shape, cut, lambda where: value[where])
    print(float(jax.jit(lambda x: (x * x).sum(), out_shardings=whole)(x)))
    # Rounds follow each other faster than processes do.
    step = jax.jit(lambda x: x - jnp.mean(x) + 1, out_shardings=cut)
    for _ in range(50):
      x = step(x)
    print([float(v) for v in x.addressable_shards[0].data])
    turned = jax.jit(lambda x: x[::-1] + jnp.cumsum(x), out_shardings=whole)(x)
    print([float(v) for v in np.asarray(turned.addressable_data(0))[:4]])
    """)


def free_port():
  with socket.socket() as s:
    s.bind(("127.0.0.1", 0))
    return s.getsockname()[1]


def run(n, program, each=2):
  env = {**os.environ, "JAX_PLATFORMS": "hilo", "HILO_ADDRESS": "127.0.0.1",
         "XLA_FLAGS": f"--xla_force_host_platform_device_count={each}"}
  port = str(free_port())
  started = [subprocess.Popen([sys.executable, "-c", program, port, str(n), str(k)], env=env, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) for k in range(n)]
  return [(*p.communicate(timeout=600), p.returncode) for p in started]


class Distributed(unittest.TestCase):

  def test_four_processes(self):
    n, each = 4, 2
    value = [float(v) for v in range(4 * n * each)]
    mean = sum(value) / len(value)
    moved = [v - mean + 1 for v in value]
    sums = [sum(moved[:k + 1]) for k in range(4)]
    for k, (out, err, status) in enumerate(run(n, PROGRAM, each)):
      self.assertEqual(status, 0, err[-3000:])
      self.assertEqual(out.splitlines(), [
          f"{n * each} {[p for p in range(n) for _ in range(each)]} {[2 * k, 2 * k + 1]}",
          f"{sum(v * v for v in value)}",
          f"{moved[8 * k:8 * k + 4]}",
          f"{[moved[-1 - j] + sums[j] for j in range(4)]}"])

  def test_others_devices(self):
    """A program on one process's devices is called by all; the others have nothing to do, and go on."""
    import jax
    if jax.__version_info__ < (0, 7):
      self.skipTest("this JAX does not call a program that has no device of the process")
    program = PROGRAM.split("# Rounds")[0] + textwrap.dedent("""
        mine = NamedSharding(Mesh(np.array(jax.local_devices(process_index=1)), ("y",)), P("y"))
        y = jax.device_put(np.arange(4, dtype=np.float32), mine)
        z = jax.jit(lambda x: x + jnp.sum(x))(y)
        z.block_until_ready()
        print([s.data.tolist() for s in z.addressable_shards])
        """)
    for k, (out, err, status) in enumerate(run(2, program)):
      self.assertEqual((status, out.splitlines()[-1:]), (0, ["[[6.0, 7.0], [8.0, 9.0]]" if k == 1 else "[]"]), err[-3000:])

  def test_one_fails(self):
    """What fails in one process ends the others' wait, with an error."""
    import jax
    if jax.__version_info__ < (0, 6):
      self.skipTest("jaxlib calls Python back by itself in this release")
    program = PROGRAM.split("# Rounds")[0] + textwrap.dedent("""
        def bad(v):
          if me == 1:
            raise ValueError("not here")
          return v
        def f(x):
          x = jax.pure_callback(bad, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
          return jax.lax.psum(x, "x")
        try:
          from jax import shard_map
        except ImportError:
          from jax.experimental.shard_map import shard_map
        try:
          out = jax.jit(shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=P()))(x)
          jax.block_until_ready(out)
          print("done")
        except Exception as e:
          print("failed", "not here" in str(e))
        """)
    for k, (out, err, status) in enumerate(run(2, program, 1)):
      self.assertEqual(out.splitlines()[-1:], [f"failed {k == 1}"], err[-3000:])


if __name__ == "__main__":
  unittest.main()
