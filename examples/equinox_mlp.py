"""An equinox MLP and optax learn a spiral of two arms: 100 steps.

    JAX_PLATFORMS=hilo python equinox_mlp.py
"""
import equinox as eqx
import jax
import jax.numpy as jnp
import optax

ROWS, COLUMNS = 15, 31


def spiral(n):
    """n points on each of two arms, and which arm it is."""
    t = jnp.linspace(0.5, 2.5, n)
    arm = jnp.stack([t * jnp.cos(3.2 * t), t * jnp.sin(3.2 * t)], axis=1)
    return jnp.concatenate([arm, -arm]), jnp.repeat(jnp.array([0.0, 1.0]), n)


def loss_of(model, points, arms):
    logits = jax.vmap(model)(points)[:, 0]
    return optax.sigmoid_binary_cross_entropy(logits, arms).mean()


def make_step(optimizer):
    @eqx.filter_jit
    def step(model, state, points, arms):
        loss, grads = eqx.filter_value_and_grad(loss_of)(model, points, arms)
        updates, state = optimizer.update(grads, state, eqx.filter(model, eqx.is_array))
        return eqx.apply_updates(model, updates), state, loss
    return step


def picture(model):
    """What the model makes of the plane: # is one arm, . the other."""
    y, x = jnp.meshgrid(jnp.linspace(2.5, -2.5, ROWS), jnp.linspace(-2.5, 2.5, COLUMNS), indexing="ij")
    logits = jax.jit(jax.vmap(jax.vmap(model)))(jnp.stack([x, y], axis=-1))[..., 0]
    return "\n".join("".join(".#"[int(v > 0)] for v in row) for row in logits)


def main():
    model = eqx.nn.MLP(2, 1, width_size=32, depth=2, activation=jnp.tanh, key=jax.random.key(1))
    optimizer = optax.adam(3e-2)
    state = optimizer.init(eqx.filter(model, eqx.is_array))
    points, arms = spiral(100)
    step = make_step(optimizer)
    for k in range(101):
        model, state, loss = step(model, state, points, arms)
        if k % 25 == 0:
            print(f"step {k:3}  loss {loss:.3f}")
    right = ((jax.vmap(model)(points)[:, 0] > 0) == arms).mean()
    print(f"right {right:.0%}")
    print(picture(model))


if __name__ == "__main__":
    main()
