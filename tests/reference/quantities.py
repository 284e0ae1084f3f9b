"""Kubernetes quantities as exact fractions, and the requests of a pod."""

import math
import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

Object = dict[str, Any]
Resources = dict[str, Fraction]

_SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    "": Fraction(1),
    **{letter: Fraction(10 ** (3 * power)) for power, letter in enumerate("kMGTPE", start=1)},
    **{f"{letter}i": Fraction(2 ** (10 * power)) for power, letter in enumerate("KMGTPE", start=1)},
}
_QUANTITY = re.compile(r"([+-]?[0-9.]+)(?:[eE]([+-]?[0-9]+)|([numkMGTPE]i?|Ki)?)")
_OTHER_NAMES = {"alpha.kubernetes.io/nvidia-gpu": "nvidia.com/gpu"}


def quantity(text: str | float) -> Fraction:
    """Parse `1.5Gi`, `100m`, `1e3` or a number."""
    match = _QUANTITY.fullmatch(str(text))
    if match is None:
        raise ValueError(f"not a quantity: {text!r}")
    number, exponent, suffix = match.groups()
    if exponent is not None:
        return Fraction(number) * Fraction(10) ** int(exponent)
    return Fraction(number) * _SUFFIXES[suffix or ""]


def amounts(written: Mapping[str, str | int | float] | None) -> Resources:
    """Parse a resource list; old resource names are replaced."""
    return {_OTHER_NAMES.get(name, name): quantity(text) for name, text in (written or {}).items()}


def allocatable(node: Object) -> Resources:
    """What a node has: CPU in millicores, everything else in whole units, rounded down."""
    status = node.get("status", {})
    return _rounded(amounts(status.get("allocatable") or status.get("capacity")), math.floor)


def pod_requests(spec: Object) -> Resources:
    """The requests of a pod; limits replace missing requests."""
    return _of_pod(spec, ("limits", "requests"))


def pod_limits(spec: Object) -> Resources:
    """The limits of a pod; requests replace missing limits."""
    return _of_pod(spec, ("requests", "limits"))


def _of_pod(spec: Object, written: tuple[str, str]) -> Resources:
    """The Kubernetes rule: the larger of what runs together and the largest init step, plus overhead."""
    together: Resources = {}
    before: Resources = {}
    for init in spec.get("initContainers") or ():
        if init.get("restartPolicy") == "Always":
            together = total([together, _container(init, written)])
            before = largest(before, together)
        else:
            before = largest(before, total([together, _container(init, written)]))
    together = total([together, *(_container(one, written) for one in spec.get("containers") or ())])
    requests = total([largest(before, together), amounts(spec.get("overhead"))])
    return {name: amount for name, amount in _rounded(requests, math.ceil).items() if amount > 0}


def _container(container: Object, written: tuple[str, str]) -> Resources:
    """The second of the two fields where it is set, else the first."""
    found = container.get("resources") or {}
    return amounts(found.get(written[0])) | amounts(found.get(written[1]))


def total(parts: Iterable[Resources]) -> Resources:
    summed: Resources = {}
    for part in parts:
        for name, amount in part.items():
            summed[name] = summed.get(name, Fraction(0)) + amount
    return summed


def largest(one: Resources, other: Resources) -> Resources:
    return {name: max(one.get(name, Fraction(0)), other.get(name, Fraction(0))) for name in one | other}


def _rounded(requests: Resources, rounding: Any) -> Resources:  # noqa: ANN401 - math.floor or math.ceil
    def one(name: str, amount: Fraction) -> Fraction:
        return Fraction(rounding(amount * 1000), 1000) if name == "cpu" else Fraction(rounding(amount))

    return {name: one(name, amount) for name, amount in requests.items()}


def is_gpu(resource: str) -> bool:
    return resource.endswith("/gpu")
