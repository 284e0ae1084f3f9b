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

from shoal.cli.input.completion import complete_names
from shoal.cli.input.options import dry_run_option, grace_period_option, parse_duration, selector_option
from shoal.cli.input.session import Failures, Session, session_option
from shoal.cli.output.printing import dry_run_suffix
from shoal.client.client import ObjectName
from shoal.client.watch import is_gone, wait_until
from shoal.cluster.errors import NotFoundError, TooManyRequestsError
from shoal.cluster.port import Selector
from shoal.cluster.resources import NODES, PODS, Object

_RETRY_SECONDS: Final = 5.0
"""Seconds until an eviction that a budget refused is tried again."""
_FINISHED: Final = ("Succeeded", "Failed")


class DrainOptions(msgspec.Struct, frozen=True, kw_only=True):
    """On what terms pods are sent away."""

    ignore_daemonsets: bool
    delete_emptydir_data: bool
    force: bool
    disable_eviction: bool
    grace_period: int
    timeout: float
    pod_selector: str
    dry_run: str


class PodDecision(msgspec.Struct, frozen=True):
    """What is to become of a pod: it goes, unless something stands in the way or it is left alone."""

    goes: bool = True
    obstacle: str = ""
    note: str = ""


def drain_node(session: Session, node: str, terms: DrainOptions, failures: Failures) -> None:
    """Send all pods of a node away, if all may go; otherwise say what stands in the way, and send none."""
    where = Selector(labels=terms.pod_selector, fields=f"spec.nodeName={node}")
    judged = [(pod, _check_pod(pod, terms)) for pod in session.client.list(PODS, where)]
    if obstacles := _grouped(judged, "obstacle"):
        failures.say(f'error: unable to drain node "{node}" due to error: {obstacles}')
        return
    if notes := _grouped(judged, "note"):
        click.echo(f"Warning: {notes}", err=True)
    leaving = [pod for pod, verdict in judged if verdict.goes]
    deadline = time.monotonic() + terms.timeout if terms.timeout else math.inf
    if _remove_pods(session, leaving, terms, deadline, failures):
        click.echo(f"node/{node} drained{dry_run_suffix(terms.dry_run)}")


# --- who goes ----------------------------------------------------------------------------------------------


def _check_pod(pod: Object, terms: DrainOptions) -> PodDecision:
    metadata = pod["metadata"]
    if "kubernetes.io/config.mirror" in (metadata.get("annotations") or {}):
        return PodDecision(goes=False)
    if (pod.get("status") or {}).get("phase") in _FINISHED:
        return PodDecision()
    owner = next((one for one in metadata.get("ownerReferences") or () if one.get("controller")), None)
    if owner and owner["kind"] == "DaemonSet" and terms.ignore_daemonsets:
        return PodDecision(goes=False, note="ignoring DaemonSet-managed Pods")
    if obstacle := _blocker(pod, owner, terms):
        return PodDecision(goes=False, obstacle=obstacle)
    return PodDecision(note="" if owner else "deleting Pods that declare no controller")


def _blocker(pod: Object, owner: Object | None, terms: DrainOptions) -> str:
    """What stands in the way of sending a pod away."""
    if owner and owner["kind"] == "DaemonSet":
        return "cannot delete DaemonSet-managed Pods (use --ignore-daemonsets to ignore)"
    local = any("emptyDir" in volume for volume in pod["spec"].get("volumes") or ())
    if local and not terms.delete_emptydir_data:
        return "cannot delete Pods with local storage (use --delete-emptydir-data to override)"
    if owner is None and not terms.force:
        return "cannot delete Pods that declare no controller (use --force to override)"
    return ""


def _grouped(judged: list[tuple[Object, PodDecision]], part: str) -> str:
    """What is said of pods, with those of whom it is: once for each thing."""
    said: dict[str, list[str]] = {}
    for pod, verdict in judged:
        if text := getattr(verdict, part):
            said.setdefault(text, []).append(_pod_name(pod))
    return "; ".join(f"{text}: {', '.join(sorted(pods))}" for text, pods in said.items())


def _pod_name(pod: Object) -> str:
    return f"{pod['metadata'].get('namespace')}/{pod['metadata']['name']}"


# --- how ---------------------------------------------------------------------------------------------------


def _remove_pods(
    session: Session, pods: list[Object], terms: DrainOptions, deadline: float, failures: Failures
) -> bool:
    """Evict pods, again if their budgets refuse, and wait until they are gone. Whether all went."""
    for pod in pods:
        verb = "deleting" if terms.disable_eviction else "evicting"
        click.echo(f"{verb} pod {_pod_name(pod)}{dry_run_suffix(terms.dry_run)}")
    if terms.dry_run == "client":
        return True
    going = list[Object]()
    for pod in _evict_with_retries(session, pods, terms, deadline, failures):
        going.append(pod)
    left = 0 if terms.dry_run != "none" else _wait_until_gone(session, going, terms, deadline, failures)
    return not left and len(going) == len(pods)


def _evict_with_retries(
    session: Session, pods: list[Object], terms: DrainOptions, deadline: float, failures: Failures
) -> Iterator[Object]:
    """The pods that were told to go, one after another."""
    waiting = list(pods)
    while waiting:
        refused = []
        for pod in waiting:
            try:
                _evict(session, pod, terms)
                yield pod
            except NotFoundError:
                yield pod
            except TooManyRequestsError as budget:
                refused.append(pod)
                click.echo(
                    f'error when evicting pods/"{pod["metadata"]["name"]}" (will retry): {budget}', err=True
                )
        waiting = refused
        if waiting and time.monotonic() + _RETRY_SECONDS > deadline:
            for pod in waiting:
                failures.say(f"error: {_pod_name(pod)} could not be evicted in time")
            return
        time.sleep(_RETRY_SECONDS if waiting else 0.0)


def _evict(session: Session, pod: Object, terms: DrainOptions) -> None:
    metadata = pod["metadata"]
    options: dict[str, Any] = {"gracePeriodSeconds": terms.grace_period} if terms.grace_period >= 0 else {}
    rehearsed = terms.dry_run == "server"
    if terms.disable_eviction:
        dry = {"dryRun": ["All"]} if rehearsed else {}
        session.client.delete(PODS, metadata["name"], metadata["namespace"], options=options | dry)
    else:
        session.client.evict(metadata["name"], metadata["namespace"], options=options, dry_run=rehearsed)


def _wait_until_gone(
    session: Session, pods: list[Object], terms: DrainOptions, deadline: float, failures: Failures
) -> int:
    """Wait until pods are gone; how many are not in time."""
    left = 0
    for pod in pods:
        metadata = pod["metadata"]
        name, space = metadata["name"], metadata["namespace"]
        if wait_until(session.client, ObjectName(PODS, name, space), is_gone(metadata["uid"]), deadline):
            click.echo(f"pod/{name} {'deleted' if terms.disable_eviction else 'evicted'}")
        else:
            left += 1
            failures.say(f"error: {_pod_name(pod)} has not ended in time")
    return left


@click.command()
@click.argument("nodes", nargs=-1, metavar="NODE...", shell_complete=complete_names("nodes"))
@session_option
@selector_option
@click.option("--ignore-daemonsets", is_flag=True, help="Leave pods of daemon sets alone.")
@click.option("--delete-emptydir-data", is_flag=True, help="Also send away pods that keep data on the node.")
@click.option("--force", is_flag=True, help="Also send away pods that nobody would make again.")
@click.option("--disable-eviction", is_flag=True, help="Delete pods, whatever their budgets say.")
@grace_period_option
@click.option(
    "--timeout",
    default="0s",
    callback=parse_duration,
    metavar="DURATION",
    help="How long to try; 0s is for ever.",
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
    failures, terms = Failures(), DrainOptions(**said)
    for node in select_nodes(session, nodes, selector, failures):
        with failures.noted():
            set_cordon(session, node, closed=True, dry_run=terms.dry_run)
            drain_node(session, node, terms, failures)
    failures.end()


def select_nodes(session: Session, names: tuple[str, ...], selector: str, failures: Failures) -> list[str]:
    """The nodes that are named or selected; what is not there is said."""
    if not names and not selector:
        raise click.UsageError("name a node, or choose some with -l")
    if selector:
        from shoal.cluster.port import Selector

        return [node["metadata"]["name"] for node in session.client.list(NODES, Selector(labels=selector))]
    found = []
    for name in names:
        with failures.noted():
            session.client.get(NODES, name)
            found.append(name)
    return found


def set_cordon(session: Session, name: str, *, closed: bool, dry_run: str) -> None:
    """Close a node to new pods or open it, and say so."""
    node = session.client.get(NODES, name)
    done = "cordoned" if closed else "uncordoned"
    if bool(node.get("spec", {}).get("unschedulable")) is closed:
        click.echo(f"node/{name} already {done}{dry_run_suffix(dry_run)}")
        return
    if dry_run != "client":
        patch = {"spec": {"unschedulable": True if closed else None}}
        session.client.patch(NODES, name, patch=patch, dry_run=dry_run == "server")
    click.echo(f"node/{name} {done}{dry_run_suffix(dry_run)}")


def cordon_nodes(
    session: Session, names: tuple[str, ...], selector: str, *, closed: bool, dry_run: str
) -> None:
    """Close or open all nodes that are meant."""
    failures = Failures()
    for name in select_nodes(session, names, selector, failures):
        with failures.noted():
            set_cordon(session, name, closed=closed, dry_run=dry_run)
    failures.end()


@click.command()
@click.argument("nodes", nargs=-1, metavar="NODE...", shell_complete=complete_names("nodes"))
@session_option
@selector_option
@dry_run_option
def cordon(session: Session, nodes: tuple[str, ...], selector: str, dry_run: str) -> None:
    r"""Let no new pods come to nodes; those that run there go on.

    \b
    Examples:
      shoal cordon n1
      shoal cordon -l rack=7
    """
    cordon_nodes(session, nodes, selector, closed=True, dry_run=dry_run)


@click.command()
@click.argument("nodes", nargs=-1, metavar="NODE...", shell_complete=complete_names("nodes"))
@session_option
@selector_option
@dry_run_option
def uncordon(session: Session, nodes: tuple[str, ...], selector: str, dry_run: str) -> None:
    r"""Let pods come to nodes again.

    \b
    Examples:
      shoal uncordon n1
      shoal uncordon -l rack=7
    """
    cordon_nodes(session, nodes, selector, closed=False, dry_run=dry_run)
