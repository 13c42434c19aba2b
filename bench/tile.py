"""Fusions and single ops: tile kernels of Hilo's CPU backend beside XLA:CPU, least CPU time of one thread.

  taskset -c 1 tile.py [--bench PROGRAM] [--only TEXT] [--dump DIR] [--no-xla]

PROGRAM is build-rel/bench/tile (a release build). Each case is HLO of one kernel, and the same written for JAX: microseconds of both.
"""
import argparse
import os
import subprocess
import tempfile
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
SUM = "s { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = f32[] add(a, b) }\n"
MAX = "m { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = f32[] maximum(a, b) }\n"


def module(params, body, result, comps=""):
    lines = [f" p{k} = {p} parameter({k})" for k, p in enumerate(params)]
    names = ", ".join(f"p{k}" for k in range(len(params)))
    return (f"HloModule bench\n{comps}f {{\n" + "\n".join(lines) + "\n" + body + "\n}\nENTRY e {\n" + "\n".join(lines) +
            f"\n ROOT r = {result} fusion({names}), kind=kLoop, calls=f\n}}\n")


def chain10(n):
    s = f"f32[{n}]"
    body = "\n".join(f" {line}" for line in [
        f"a = {s} multiply(p0, p1)", f"b = {s} add(a, p0)", f"c = {s} tanh(b)", f"d = {s} multiply(c, p1)", f"e = {s} exponential(d)",
        f"g = {s} subtract(e, p0)", f"h = {s} maximum(g, p1)", f"i = {s} multiply(h, h)", f"j = {s} add(i, c)", f"ROOT k = {s} minimum(j, e)"])
    return module([s, s], body, s)


def cheap10(n):
    s = f"f32[{n}]"
    body = "\n".join(f" {line}" for line in [
        f"a = {s} multiply(p0, p1)", f"b = {s} add(a, p0)", f"c = {s} subtract(b, p1)", f"d = {s} multiply(c, p1)", f"e = {s} maximum(d, a)",
        f"g = {s} subtract(e, p0)", f"h = {s} maximum(g, p1)", f"i = {s} multiply(h, h)", f"j = {s} add(i, c)", f"ROOT k = {s} minimum(j, e)"])
    return module([s, s], body, s)


def cases():
    import jax
    import jax.numpy as jnp
    f32 = jnp.float32

    def chain(p, q, cheap=False):
        a = p * q
        b = a + p
        c = b - q if cheap else jnp.tanh(b)
        d = c * q
        e = jnp.maximum(d, a) if cheap else jnp.exp(d)
        h = jnp.maximum(e - p, q)
        return jnp.minimum(h * h + c, e)

    def ones(*shape):
        return jax.random.uniform(jax.random.key(0), shape, f32, -1, 1)
    for n in (1 << 14, 1 << 20):
        yield f"chain10 {n}", chain10(n), chain, (ones(n), ones(n))
        yield f"cheap10 {n}", cheap10(n), lambda p, q: chain(p, q, True), (ones(n), ones(n))
    n = 1 << 24
    yield "saxpy 16M", module(["f32[]", f"f32[{n}]", f"f32[{n}]"],
                              f" b = f32[{n}] broadcast(p0), dimensions={{}}\n m = f32[{n}] multiply(b, p1)\n ROOT a = f32[{n}] add(m, p2)",
                              f"f32[{n}]"), lambda a, x, y: a * x + y, (f32(2), ones(n), ones(n))
    s, r = "f32[4096,1024]", "f32[4096]"
    yield "softmax 4096x1024", module([s], f""" i = f32[] constant(-inf)
 z = f32[] constant(0)
 m = {r} reduce(p0, i), dimensions={{1}}, to_apply=m
 b = {s} broadcast(m), dimensions={{0}}
 d = {s} subtract(p0, b)
 e = {s} exponential(d)
 t = {r} reduce(e, z), dimensions={{1}}, to_apply=s
 c = {s} broadcast(t), dimensions={{0}}
 ROOT q = {s} divide(e, c)""", s, SUM + MAX), lambda x: jax.nn.softmax(x, axis=1), (ones(4096, 1024),)

    def layernorm(x, g, b):
        mean = x.mean(1, keepdims=True)
        var = ((x - mean) ** 2).mean(1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(var + 1e-5) * g + b
    yield "layernorm 4096x1024", module([s, "f32[1024]", "f32[1024]"], f""" z = f32[] constant(0)
 n = f32[] constant(0.0009765625)
 u = f32[] constant(1e-5)
 v = {r} broadcast(n), dimensions={{}}
 w = {r} broadcast(u), dimensions={{}}
 t = {r} reduce(p0, z), dimensions={{1}}, to_apply=s
 a = {r} multiply(t, v)
 b = {s} broadcast(a), dimensions={{0}}
 d = {s} subtract(p0, b)
 e = {s} multiply(d, d)
 q = {r} reduce(e, z), dimensions={{1}}, to_apply=s
 h = {r} multiply(q, v)
 i = {r} add(h, w)
 j = {r} rsqrt(i)
 k = {s} broadcast(j), dimensions={{0}}
 l = {s} multiply(d, k)
 g = {s} broadcast(p1), dimensions={{1}}
 o = {s} multiply(l, g)
 x = {s} broadcast(p2), dimensions={{1}}
 ROOT y = {s} add(o, x)""", s, SUM), layernorm, (ones(4096, 1024), ones(1024), ones(1024))
    for name, shape, dims, to, axis in (("column sum 4096x1024", s, "0", "f32[1024]", 0), ("row sum 4096x1024", s, "1", r, 1),
                                        ("sum of 4M", "f32[4194304]", "0", "f32[]", 0), ("sum of last 8", "f32[524288,8]", "1", "f32[524288]", 1)):
        yield (name, f"HloModule m\n{SUM}ENTRY e {{\n x = {shape} parameter(0)\n z = f32[] constant(0)\n"
               f" ROOT r = {to} reduce(x, z), dimensions={{{dims}}}, to_apply=s\n}}\n", lambda x, axis=axis: x.sum(axis),
               (ones(*map(int, shape[4:-1].split(","))),))
    yield ("transpose 4096", "HloModule m\nENTRY e {\n x = f32[4096,4096] parameter(0)\n ROOT t = f32[4096,4096] transpose(x), dimensions={1,0}\n}\n",
           lambda x: x.T + 0, (ones(4096, 4096),))
    for c in (3, 64, 1024):
        rows = (1 << 20) // c
        yield (f"bias {rows}x{c}", module([f"f32[{rows},{c}]", f"f32[{c}]"],
                                          f" b = f32[{rows},{c}] broadcast(p1), dimensions={{1}}\n a = f32[{rows},{c}] add(p0, b)\n"
                                          f" z = f32[] constant(0)\n y = f32[{rows},{c}] broadcast(z), dimensions={{}}\n ROOT m = f32[{rows},{c}] maximum(a, y)",
                                          f"f32[{rows},{c}]"), lambda x, b: jnp.maximum(x + b, 0), (ones(rows, c), ones(c)))
    yield ("concatenate", module(["f32[1024,512]", "f32[1024,256]"],
                                 " n = f32[1024,512] negate(p0)\n ROOT c = f32[1024,768] concatenate(n, p1), dimensions={1}", "f32[1024,768]"),
           lambda x, y: jnp.concatenate([-x, y], 1), (ones(1024, 512), ones(1024, 256)))
    yield ("pad", module(["f32[16,56,56,64]"], " z = f32[] constant(0)\n ROOT c = f32[16,58,58,64] pad(p0, z), padding=0_0x1_1x1_1x0_0",
                         "f32[16,58,58,64]"), lambda x: jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))), (ones(16, 56, 56, 64),))
    yield ("max pool", f"HloModule m\n{MAX}ENTRY e {{\n x = f32[16,56,56,64] parameter(0)\n z = f32[] constant(-inf)\n"
           " ROOT r = f32[16,28,28,64] reduce-window(x, z), window={size=1x3x3x1 stride=1x2x2x1 pad=0_0x1_1x1_1x0_0}, to_apply=m\n}\n",
           lambda x: jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), ((0, 0), (1, 1), (1, 1), (0, 0))),
           (ones(16, 56, 56, 64),))
    yield ("gather rows", "HloModule m\nENTRY e {\n x = f32[50000,256] parameter(0)\n i = s32[8192] parameter(1)\n"
           " ROOT g = f32[8192,256] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,256}\n}\n",
           lambda x, i: x[i], (ones(50000, 256), jax.random.randint(jax.random.key(0), (8192,), 0, 50000)))
    yield ("gather 262144 rows of 16", module(["f32[100000,16]", "s32[262144]"], """ z = s32[] constant(0)
 n = s32[] constant(100000)
 y = s32[262144] broadcast(z), dimensions={}
 l = pred[262144] compare(p1, y), direction=LT
 m = s32[262144] broadcast(n), dimensions={}
 a = s32[262144] add(p1, m)
 i = s32[262144] select(l, a, p1)
 ROOT g = f32[262144,16] gather(p0, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,16}""",
                                                 "f32[262144,16]"), lambda x, i: x[i], (ones(100000, 16), jax.random.randint(jax.random.key(0), (262144,), 0, 100)))
    yield ("scatter-add 262144 of 16", f"HloModule m\n{SUM}ENTRY e {{\n x = f32[100000,16] parameter(0)\n i = s32[262144] parameter(1)\n"
           " u = f32[262144,16] parameter(2)\n ROOT g = f32[100000,16] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0},"
           " scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=s\n}\n",
           lambda x, i, u: x.at[i].add(u), (ones(100000, 16), jax.random.randint(jax.random.key(0), (262144,), 0, 100), ones(262144, 16)))
    for name, window, axis in (("rows", "1x1024 pad=0_0x1023_0", 1), ("columns", "4096x1 pad=4095_0x0_0", 0)):
        yield (f"cumsum of {name} 4096x1024", f"HloModule m\n{SUM}ENTRY e {{\n x = {s} parameter(0)\n z = f32[] constant(0)\n"
               f" ROOT r = {s} reduce-window(x, z), window={{size={window}}}, to_apply=s\n}}\n", lambda x, axis=axis: jnp.cumsum(x, axis), (ones(4096, 1024),))
    yield ("argmax 4096x1024", "HloModule m\na { x = f32[] parameter(0)\n i = s32[] parameter(1)\n y = f32[] parameter(2)\n j = s32[] parameter(3)\n"
           " g = pred[] compare(x, y), direction=GT\n e = pred[] compare(x, y), direction=EQ\n l = pred[] compare(i, j), direction=LT\n"
           " k = pred[] and(e, l)\n t = pred[] or(g, k)\n v = f32[] select(t, x, y)\n n = s32[] select(t, i, j)\n ROOT r = (f32[], s32[]) tuple(v, n) }\n"
           f"f {{\n x = {s} parameter(0)\n n = s32[4096,1024] iota(), iota_dimension=1\n i = f32[] constant(-inf)\n j = s32[] constant(0)\n"
           f" ROOT r = ({r}, s32[4096]) reduce(x, n, i, j), dimensions={{1}}, to_apply=a\n}}\nENTRY e {{\n x = {s} parameter(0)\n"
           f" ROOT r = ({r}, s32[4096]) fusion(x), kind=kInput, calls=f\n}}\n", lambda x: (x.max(1), jnp.argmax(x, 1)), (ones(4096, 1024),))


def xla_us(f, args):
    import jax
    f = jax.jit(f)
    jax.block_until_ready(f(*args))
    best, total, rounds, times = 1e30, 0, 0, 1
    while rounds < 3 or total < 0.5:
        start = time.process_time()
        for _ in range(times):
            out = f(*args)
        jax.block_until_ready(out)
        took = (time.process_time() - start) / times
        best, total, rounds = min(best, took), total + took * times, rounds + 1
        times = max(1, int(1e-3 / best))
    return best * 1e6


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bench", default=os.path.join(ROOT, "build-rel", "bench", "tile"))
    p.add_argument("--only", default="")
    p.add_argument("--dump")
    p.add_argument("--no-xla", action="store_true")
    a = p.parse_args()
    print(f"{'':22} {'hilo us':>10} {'XLA us':>10} {'ratio':>6}")
    with tempfile.TemporaryDirectory() as tmp:
        for name, text, f, args in cases():
            if a.only not in name:
                continue
            path = os.path.join(a.dump or tmp, name.replace(" ", "_") + ".hlo")
            with open(path, "w") as out:
                out.write(text)
            got = subprocess.run([a.bench, path], capture_output=True, text=True, check=True).stdout
            hilo = float(got.split()[-1])
            xla = 0 if a.no_xla else xla_us(f, args)
            print(f"{name:22} {hilo:10.1f} {xla:10.1f} {xla / hilo:6.2f}", flush=True)


if __name__ == "__main__":
    main()
