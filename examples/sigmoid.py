"""One function in every form: sigmoid as jaxpr, StableHLO, HLO and MHLO, and the same for its derivative.

    JAX_PLATFORMS=hilo python sigmoid.py

`hilo.Module` reads what JAX wrote and writes it in other forms, as `hilo convert` does.
"""
import hilo
import jax
import jax.numpy as jnp


def sigmoid(x):
    return 1 / (1 + jnp.exp(-x))


def derivative(x):
    return jax.vmap(jax.grad(sigmoid))(x)


def show(title, text):
    print(f"--- {title}")
    print("\n".join(line for line in text.split("\n") if line.strip()))


def forms(f):
    name = f.__name__
    x = jax.ShapeDtypeStruct((4,), jnp.float32)
    lowered = jax.jit(f).lower(x)
    module = hilo.Module(lowered.as_text())
    show(f"{name}: jaxpr", str(jax.make_jaxpr(f)(x)))
    show(f"{name}: StableHLO", lowered.as_text())
    show(f"{name}: HLO", module.to_string("short"))
    show(f"{name}: MHLO", module.convert("mhlo"))
    cost = lowered.compile().cost_analysis()
    print(f"--- {name}: {cost['flops']:.0f} flops, {cost['transcendentals']:.0f} transcendentals, "
          f"{module.stats()['instructions']} instructions")


def numbers(title, array):
    print(f"{title:16}", " ".join(f"{v:.6f}" for v in array))


def main():
    forms(sigmoid)
    forms(derivative)

    x = jnp.array([-2.0, 0.0, 1.0, 4.0])
    s = jax.jit(sigmoid)(x)
    print("--- values")
    numbers("sigmoid", s)
    numbers("derivative", jax.jit(derivative)(x))
    numbers("s * (1 - s)", s * (1 - s))


if __name__ == "__main__":
    main()
