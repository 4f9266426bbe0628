"""JAX: jit, grad, products, preallocation, two devices, out of memory."""

import sys

import jax
import jax.numpy as jnp

from testbed.frameworks.steps.report import Facts, tell


def init() -> Facts:
    return {"devices": len(jax.devices()), "platform": jax.devices()[0].platform}


def jit() -> Facts:
    step = jax.jit(lambda value: jnp.tanh(value @ value) + 1)
    value = jnp.ones((1024, 1024))
    for _ in range(50):
        value = step(value)
    value.block_until_ready()
    return {"shape": list(value.shape)}


def grad() -> Facts:
    def loss(weights: jax.Array, batch: jax.Array) -> jax.Array:
        return jnp.mean(jnp.square(jnp.tanh(batch @ weights)))

    step = jax.jit(lambda weights, batch: weights - 0.1 * jax.grad(loss)(weights, batch))
    weights, batch = jnp.ones((512, 512)), jnp.ones((128, 512))
    for _ in range(50):
        weights = step(weights, batch)
    weights.block_until_ready()
    return {"shape": list(weights.shape)}


def preallocation() -> Facts:
    """Show that XLA takes three quarters of the card before the first array."""
    jnp.ones((16,)).block_until_ready()
    stats = jax.devices()[0].memory_stats()
    return {"limit": stats["bytes_limit"], "has_taken": stats["bytes_limit"] > 0}


def two_devices() -> Facts:
    first, second = jax.devices()[:2]
    one = jax.device_put(jnp.arange(1024.0), first)
    other = jax.device_put(one, second)
    other.block_until_ready()
    return {"devices": [str(next(iter(each.devices())).id) for each in (one, other)]}


def out_of_memory() -> Facts:
    """Fill the card by gigabytes: one array larger than the card made XLA use the host's memory once."""
    said, kept = "", []
    try:
        for _ in range(64):
            kept.append(jax.device_put(jnp.zeros((1 << 30,), dtype=jnp.int8)).block_until_ready())
    except Exception as error:  # noqa: BLE001  its text is the fact
        said = str(error).partition(":")[0]
    kept.clear()
    after = jnp.ones((16,)).block_until_ready()
    return {"said": said, "after": list(after.shape)}


if __name__ == "__main__":
    tell(globals()[sys.argv[1]])
