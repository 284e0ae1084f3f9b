"""Emptying a node: which pods may be sent away, and how they are.

Pods of daemon sets come back at once and stay; mirrors of static pods cannot be sent away. Others are only
sent away by who says that he means it: pods that nobody would make again (--force), and pods whose data on
the node is lost (--delete-emptydir-data). Evictions respect disruption budgets: one that is refused is tried
again until the time is over.

`shoal drain`: nodes emptied, for somebody to work on them.
"""

import math
import time
from collections.abc import Iterator
from typing import Any, Final

import click
import msgspec

from shoal.cli.input.completing import names_of
from shoal.cli.input.connection import session_option
from shoal.cli.input.options import dry_run_option, duration, grace_option, labels_option
from shoal.cli.input.session import Failures, Session
from shoal.cli.output.printing import rehearsal
from shoal.client.client import Named
from shoal.client.watch import gone, until
from shoal.cluster.errors import NotFoundError, TooManyRequestsError
from shoal.cluster.port import Where
from shoal.cluster.resources import PODS, Object

_AGAIN: Final = 5.0
"""Seconds until an eviction that a budget refused is tried again."""
_ENDED: Final = ("Succeeded", "Failed")


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """On what terms pods are sent away."""

    ignore_daemonsets: bool
    delete_emptydir_data: bool
    force: bool
    disable_eviction: bool
    grace_period: int
    timeout: float
    pod_selector: str
    dry_run: str


class Verdict(msgspec.Struct, frozen=True):
    """What is to become of a pod: it goes, unless something stands in the way or it is left alone."""

    goes: bool = True
    obstacle: str = ""
    note: str = ""


def drain_node(session: Session, node: str, terms: Terms, failures: Failures) -> None:
    """Send all pods of a node away, if all may go; otherwise say what stands in the way, and send none."""
    where = Where(labels=terms.pod_selector, fields=f"spec.nodeName={node}")
    judged = [(pod, _judge(pod, terms)) for pod in session.client.list(PODS, where)]
    if obstacles := _grouped(judged, "obstacle"):
        failures.say(f'error: unable to drain node "{node}" due to error: {obstacles}')
        return
    if notes := _grouped(judged, "note"):
        click.echo(f"Warning: {notes}", err=True)
    leaving = [pod for pod, verdict in judged if verdict.goes]
    deadline = time.monotonic() + terms.timeout if terms.timeout else math.inf
    if _send_away(session, leaving, terms, deadline, failures):
        click.echo(f"node/{node} drained{rehearsal(terms.dry_run)}")


# --- who goes ----------------------------------------------------------------------------------------------


def _judge(pod: Object, terms: Terms) -> Verdict:
    metadata = pod["metadata"]
    if "kubernetes.io/config.mirror" in (metadata.get("annotations") or {}):
        return Verdict(goes=False)
    if (pod.get("status") or {}).get("phase") in _ENDED:
        return Verdict()
    owner = next((one for one in metadata.get("ownerReferences") or () if one.get("controller")), None)
    if owner and owner["kind"] == "DaemonSet" and terms.ignore_daemonsets:
        return Verdict(goes=False, note="ignoring DaemonSet-managed Pods")
    if obstacle := _obstacle(pod, owner, terms):
        return Verdict(goes=False, obstacle=obstacle)
    return Verdict(note="" if owner else "deleting Pods that declare no controller")


def _obstacle(pod: Object, owner: Object | None, terms: Terms) -> str:
    """What stands in the way of sending a pod away."""
    if owner and owner["kind"] == "DaemonSet":
        return "cannot delete DaemonSet-managed Pods (use --ignore-daemonsets to ignore)"
    local = any("emptyDir" in volume for volume in pod["spec"].get("volumes") or ())
    if local and not terms.delete_emptydir_data:
        return "cannot delete Pods with local storage (use --delete-emptydir-data to override)"
    if owner is None and not terms.force:
        return "cannot delete Pods that declare no controller (use --force to override)"
    return ""


def _grouped(judged: list[tuple[Object, Verdict]], part: str) -> str:
    """What is said of pods, with those of whom it is: once for each thing."""
    said: dict[str, list[str]] = {}
    for pod, verdict in judged:
        if text := getattr(verdict, part):
            said.setdefault(text, []).append(_title(pod))
    return "; ".join(f"{text}: {', '.join(sorted(pods))}" for text, pods in said.items())


def _title(pod: Object) -> str:
    return f"{pod['metadata'].get('namespace')}/{pod['metadata']['name']}"


# --- how ---------------------------------------------------------------------------------------------------


def _send_away(
    session: Session, pods: list[Object], terms: Terms, deadline: float, failures: Failures
) -> bool:
    """Evict pods, again if their budgets refuse, and wait until they are gone. Whether all went."""
    for pod in pods:
        verb = "deleting" if terms.disable_eviction else "evicting"
        click.echo(f"{verb} pod {_title(pod)}{rehearsal(terms.dry_run)}")
    if terms.dry_run == "client":
        return True
    going = list[Object]()
    for pod in _asked(session, pods, terms, deadline, failures):
        going.append(pod)
    left = 0 if terms.dry_run != "none" else _await(session, going, terms, deadline, failures)
    return not left and len(going) == len(pods)


def _asked(
    session: Session, pods: list[Object], terms: Terms, deadline: float, failures: Failures
) -> Iterator[Object]:
    """The pods that were told to go, one after another."""
    waiting = list(pods)
    while waiting:
        refused = []
        for pod in waiting:
            try:
                _ask(session, pod, terms)
                yield pod
            except NotFoundError:
                yield pod
            except TooManyRequestsError as budget:
                refused.append(pod)
                click.echo(
                    f'error when evicting pods/"{pod["metadata"]["name"]}" (will retry): {budget}', err=True
                )
        waiting = refused
        if waiting and time.monotonic() + _AGAIN > deadline:
            for pod in waiting:
                failures.say(f"error: {_title(pod)} could not be evicted in time")
            return
        time.sleep(_AGAIN if waiting else 0.0)


def _ask(session: Session, pod: Object, terms: Terms) -> None:
    metadata = pod["metadata"]
    options: dict[str, Any] = {"gracePeriodSeconds": terms.grace_period} if terms.grace_period >= 0 else {}
    rehearsed = terms.dry_run == "server"
    if terms.disable_eviction:
        dry = {"dryRun": ["All"]} if rehearsed else {}
        session.client.delete(PODS, metadata["name"], metadata["namespace"], options=options | dry)
    else:
        session.client.evict(metadata["name"], metadata["namespace"], options=options, dry_run=rehearsed)


def _await(session: Session, pods: list[Object], terms: Terms, deadline: float, failures: Failures) -> int:
    """Wait until pods are gone; how many are not in time."""
    left = 0
    for pod in pods:
        metadata = pod["metadata"]
        name, space = metadata["name"], metadata["namespace"]
        if until(session.client, Named(PODS, name, space), gone(metadata["uid"]), deadline):
            click.echo(f"pod/{name} {'deleted' if terms.disable_eviction else 'evicted'}")
        else:
            left += 1
            failures.say(f"error: {_title(pod)} has not ended in time")
    return left


@click.command()
@click.argument("nodes", nargs=-1, metavar="NODE...", shell_complete=names_of("nodes"))
@session_option
@labels_option
@click.option("--ignore-daemonsets", is_flag=True, help="Leave pods of daemon sets alone.")
@click.option("--delete-emptydir-data", is_flag=True, help="Also send away pods that keep data on the node.")
@click.option("--force", is_flag=True, help="Also send away pods that nobody would make again.")
@click.option("--disable-eviction", is_flag=True, help="Delete pods, whatever their budgets say.")
@grace_option
@click.option(
    "--timeout", default="0s", callback=duration, metavar="DURATION", help="How long to try; 0s is for ever."
)
@click.option("--pod-selector", default="", metavar="LABELS", help="Only send away pods with such labels.")
@dry_run_option
def drain(session: Session, nodes: tuple[str, ...], selector: str, **said: Any) -> None:  # noqa: ANN401 - one an option
    r"""Empty nodes: close them to new pods, and send away those that are there.

    Pods are evicted, so that disruption budgets hold: what a budget refuses is tried again. If some pods may
    not be sent away it says which and why, and sends none.

    \b
    Examples:
      shoal drain n1
      shoal drain n1 --ignore-daemonsets --delete-emptydir-data --force
      shoal drain -l rack=7 --timeout=5m
      shoal uncordon n1                          when the work is done
    """
    from shoal.cli.input.cordoning import nodes_meant, set_cordon

    failures, terms = Failures(), Terms(**said)
    for node in nodes_meant(session, nodes, selector, failures):
        with failures.noted():
            set_cordon(session, node, closed=True, dry_run=terms.dry_run)
            drain_node(session, node, terms, failures)
    failures.end()
