"""Admission in the embedded home: strategies that also refuse what this machine cannot run."""

from collections.abc import Mapping

from msgspec.structs import replace

from shoal.apiserver.strategies.strategy import Reader, Rules
from shoal.cluster.resources import PODS, Object
from shoal.kubelet.admission import _SPECS, Refuse, refusals


def refusing(table: Mapping[str, Rules], refuse: Refuse) -> Mapping[str, Rules]:
    """Rules that refuse what cannot be run, besides what they refuse anyway."""
    return {name: _stricter(rules, refuse) if name in _SPECS else rules for name, rules in table.items()}


def _stricter(rules: Rules, refuse: Refuse) -> Rules:
    name = rules.resource.full_name

    def admit(thing: Object, old: Object | None, reader: Reader) -> None:
        rules.admit(thing, old, reader)
        if old is None or (old.get("spec") != thing.get("spec") and name != PODS.full_name):
            rules.check(thing["metadata"]["name"], refusals(thing, refuse, name))

    return replace(rules, admit=admit)
