# SPDX-License-Identifier: GPL-2.0-or-later
"""From rates to intervals.

The unit of replication is the restart (boot): trials of one restart share its code and memory layout, and taking them
as independent calls identical kernels different. Arrays are float64 of shape (restarts,), in ns per packet unless said
otherwise.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special

Floats = NDArray[np.float64]

MAX_RESTARTS = 1000
LOG_OF_LARGEST = 709.0
LEVEL = 0.99  # of confidence intervals


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over restarts; one restart has no spread, hence neither `sd` nor `interval`."""

    n: int
    mean: float
    sd: float | None = None
    interval: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """`b` minus `a` with its confidence interval and two-sided p."""

    delta: float
    low: float
    high: float
    dof: float
    p: float


def restart_means(by_restart: Mapping[int, Sequence[float]]) -> Floats:
    """The mean of each restart's trials, in the order of the restarts."""
    return np.array([np.mean(by_restart[boot]) for boot in sorted(by_restart)], dtype=np.float64)


def estimate(values: ArrayLike, level: float = LEVEL) -> Estimate:
    """Mean and Student's t interval (1908) of at least one restart mean."""
    x = np.asarray(values, dtype=np.float64)
    mean = float(x.mean())
    if x.size < 2:
        return Estimate(int(x.size), mean)
    sd = float(x.std(ddof=1))
    half = _t_quantile(x.size - 1, level) * sd / math.sqrt(x.size)
    return Estimate(int(x.size), mean, sd, (mean - half, mean + half))


def welch_interval(a: ArrayLike, b: ArrayLike, *, level: float = LEVEL) -> Difference:
    """Mean of b minus mean of a, without assuming equal spread (Welch 1947, degrees of freedom by Satterthwaite 1946).

    Needs two values a side. Without any spread on either side the interval is a point and p is 0 or 1: that is for
    exact counts, where an A/A pair has proved the zero.
    """
    x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if min(x.size, y.size) < 2:
        raise ValueError(f"Welch's interval needs two values a side, not {x.size} and {y.size}")
    dof, se = _satterthwaite(x.size, y.size, float(x.std(ddof=1)), float(y.std(ddof=1)))
    return _difference(float(y.mean() - x.mean()), se, dof, level)


def paired_interval(a: ArrayLike, b: ArrayLike, *, level: float = LEVEL) -> Difference:
    """Mean of b minus a, value by value: for two cases that were measured in the same restarts. Needs two pairs."""
    d = np.asarray(b, dtype=np.float64) - np.asarray(a, dtype=np.float64)
    if d.size < 2:
        raise ValueError(f"a paired interval needs two pairs, not {d.size}")
    return _difference(float(d.mean()), float(d.std(ddof=1)) / math.sqrt(d.size), d.size - 1, level)


def relative_interval(a: ArrayLike, b: ArrayLike, *, level: float = LEVEL) -> Difference:
    """Change from a to b in percent: Welch's interval of the logarithms, exponentiated.

    The point is the ratio of geometric means, so a to b and b to a agree. `p` tests a ratio of 1. All values must be
    above zero.
    """
    logs = welch_interval(np.log(np.asarray(a)), np.log(np.asarray(b)), level=level)
    low, delta, high = (100 * _expm1(x) for x in (logs.low, logs.delta, logs.high))
    return Difference(delta, low, high, logs.dof, logs.p)


def _expm1(x: float) -> float:
    """exp(x) - 1, infinite beyond the range of a float: few restarts at a high level can ask for that."""
    return math.expm1(x) if x < LOG_OF_LARGEST else math.inf


def _difference(delta: float, se: float, dof: float, level: float) -> Difference:
    if se == 0:
        return Difference(delta, delta, delta, dof, 1.0 if delta == 0 else 0.0)
    half = _t_quantile(dof, level) * se
    return Difference(delta, delta - half, delta + half, dof, 2 * float(special.stdtr(dof, -abs(delta) / se)))


def _t_quantile(dof: float, level: float) -> float:
    return float(special.stdtrit(dof, (1 + level) / 2))


def _satterthwaite(n_a: int, n_b: int, sd_a: float, sd_b: float) -> tuple[float, float]:
    """Degrees of freedom and standard error of a difference of means."""
    var_a, var_b = sd_a**2 / n_a, sd_b**2 / n_b
    if var_a + var_b == 0:
        return float(n_a + n_b - 2), 0.0
    dof = (var_a + var_b) ** 2 / (var_a**2 / (n_a - 1) + var_b**2 / (n_b - 1))
    return dof, math.sqrt(var_a + var_b)


def minimum_detectable_effect(
    n_a: int, n_b: int, *, sd_a: float, sd_b: float, alpha: float = 0.01, power: float = 0.9
) -> float:
    """The least true difference that a two-sided test of this size finds with this power, in the unit of the sds.

    Exact noncentral t (Johnson & Welch 1940) with Satterthwaite's degrees of freedom. Needs two values a side.
    """
    if min(n_a, n_b) < 2:
        raise ValueError(f"an effect is detectable from two values a side on, not from {n_a} and {n_b}")
    dof, se = _satterthwaite(n_a, n_b, sd_a, sd_b)
    critical = _t_quantile(dof, 1 - alpha)
    # The test may also fire on the wrong side (below 1e-4 for a power of 0.5 and more): that is not finding it.
    return se * _root(lambda shift: float(1 - special.nctdtr(dof, shift, critical)) - power, critical + 10)


def _root(f: Callable[[float], float], guess: float) -> float:
    """Where a rising function crosses zero above 0."""
    high = guess
    while f(high) < 0:
        high *= 2
    return float(optimize.brentq(f, 0.0, high, xtol=1e-9))


def restarts_needed(effect: float, *, sd_a: float, sd_b: float, alpha: float = 0.01, power: float = 0.9) -> int | None:
    """The least number of restarts a side that detects `effect`; None above MAX_RESTARTS."""

    def is_enough(n: int) -> bool:
        return minimum_detectable_effect(n, n, sd_a=sd_a, sd_b=sd_b, alpha=alpha, power=power) <= effect

    low, high = 2, MAX_RESTARTS
    if not is_enough(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle + 1, high)
    return low


def benjamini_hochberg(p: ArrayLike) -> Floats:
    """p values adjusted so that among those called below q a share q is false (Benjamini & Hochberg 1995)."""
    x = np.asarray(p, dtype=np.float64)
    order = np.argsort(x)[::-1]
    ranks = np.arange(x.size, 0, -1)
    adjusted = np.empty_like(x)
    adjusted[order] = np.minimum(1.0, np.minimum.accumulate(x[order] * x.size / ranks))
    return adjusted
