"""The least time that a card needs for a case's work, and what of the card sets it. Formulas, no measurement.

Per layer, T = B·S: linear 8·T·D² + 4·T·D·F operations; attention 4·T·S·D, causal 2·T·(S+1)·D; B·H·S²
exponentials, half of them when causal. x and the weights are read once and y is written once, in float32:
what one kernel for all would move. A floor is the longest of launch, memory, exponentials and arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.shapes import Shape

_FLOAT = 4  # bytes
_EXPONENTIALS = 16  # a clock and SM, by its special function units
CLASSES = ("fp32", "split", "half")


@dataclass(frozen=True)
class Card:
    """A card's peaks from its maker: operations and bytes a second; `launch_s` is a launch at its least.

    `rates` are those of float32 outside tensor cores, of float32's accuracy by three products of halves
    (a third of the next), and of half-precision operands.
    """

    rates: dict[str, float]
    bytes_per_s: float
    exponentials_per_s: float
    launch_s: float


def _card(fp32: float, half: float, bandwidth: float, sms: int, clock: float, launch_s: float) -> Card:
    rates = {"fp32": fp32, "split": half / 3, "half": half}
    return Card(rates, bandwidth, _EXPONENTIALS * sms * clock, launch_s)


# By words of the device's name. Dense peaks at boost clocks, which a T4 at 70 W does not hold for long.
CARDS = {
    "H200": _card(67e12, 990e12, 4.8e12, 132, 1.98e9, 4e-6),
    "Tesla T4": _card(8.1e12, 65e12, 320e9, 40, 1.59e9, 5e-6),
}


@dataclass(frozen=True)
class Floor:
    """A least time in milliseconds for one class of arithmetic, and what sets it."""

    ms: float
    bound: str


def card_of(device: str) -> Card | None:
    """Return the card that a device's name tells, or None: of others no floor is known."""
    words = device.split()
    return next((card for name, card in CARDS.items() if set(name.split()) <= set(words)), None)


def floors(shape: Shape, card: Card) -> dict[str, Floor]:
    """Return the floor of each class of arithmetic."""
    tokens, width, layers = shape.tokens, shape.d_model, shape.layers
    seen = shape.seq_len + 1 if shape.causal else 2 * shape.seq_len
    linear = 8 * tokens * width**2 + 4 * tokens * width * shape.ffn_dim
    operations = layers * (linear + 2 * tokens * seen * width)
    others = {
        "launch": card.launch_s,
        "memory": _bytes(shape) / card.bytes_per_s,
        "exponentials": layers * tokens * shape.heads * seen / 2 / card.exponentials_per_s,
    }
    found = {}
    for name in CLASSES:
        times = {**others, "arithmetic": operations / card.rates[name]}
        bound = max(times, key=lambda what: times[what])
        found[name] = Floor(times[bound] * 1e3, bound)
    return found


def _bytes(shape: Shape) -> int:
    width, inner = shape.d_model, shape.ffn_dim
    weights = shape.layers * (4 * width**2 + 2 * width * inner + 9 * width + inner)
    return _FLOAT * (2 * shape.tokens * width + weights)


def class_of(dtype: str, max_abs: float | None) -> str:
    """Return the class of arithmetic that a case's dtype and worst error speak of.

    On this network halves and TF32 err by about 1e-3, what keeps float32's accuracy by 1e-5 or less.
    """
    return "half" if dtype != "float32" or (max_abs is not None and max_abs > _HALVES_ERR) else "split"


_HALVES_ERR = 1e-4
