"""`shoal cordon`, `shoal uncordon` and `shoal drain`: node maintenance.

Drain follows kubectl. Pods of daemon sets stay, because they would be recreated at once; mirror pods of
static pods cannot be evicted. Pods without a controller need --force, and pods with local data need
--delete-emptydir-data. Evictions respect disruption budgets: a refused eviction is retried until the timeout.
"""

import math
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import click
import msgspec

from shoal.api.conditions import FINISHED_PHASES
from shoal.cli.input.completion import complete_names
from shoal.cli.input.options import dry_run_option, duration_callback, grace_period_option, selector_option
from shoal.cli.input.session import Failures, Session, session_option
from shoal.cli.output.printing import dry_run_suffix
from shoal.client.client import ObjectName
from shoal.client.watch import is_gone, wait_until
from shoal.cluster.errors import NotFoundError, TooManyRequestsError
from shoal.cluster.port import Selector
from shoal.cluster.resources import NODES, PODS, Object

_RETRY_SECONDS: Final = 5.0
"""Delay before an eviction that a disruption budget refused is retried."""


# --- commands ----------------------------------------------------------------------------------------------


def _node_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what selects nodes: names or a label selector; and the parameter `session`."""
    names = click.argument("nodes", nargs=-1, metavar="NODE...", shell_complete=complete_names("nodes"))
    return names(session_option(selector_option(command)))


@click.command()
@_node_options
@dry_run_option
def cordon(session: Session, nodes: tuple[str, ...], selector: str, dry_run: str) -> None:
    r"""Mark nodes as unschedulable. Running pods stay.

    \b
    Examples:
      shoal cordon n1
      shoal cordon -l rack=7
    """
    cordon_nodes(session, nodes, selector, unschedulable=True, dry_run=dry_run)


@click.command()
@_node_options
@dry_run_option
def uncordon(session: Session, nodes: tuple[str, ...], selector: str, dry_run: str) -> None:
    r"""Mark nodes as schedulable.

    \b
    Examples:
      shoal uncordon n1
      shoal uncordon -l rack=7
    """
    cordon_nodes(session, nodes, selector, unschedulable=False, dry_run=dry_run)


@click.command()
@_node_options
@click.option("--ignore-daemonsets", is_flag=True, help="Ignore pods of daemon sets.")
@click.option("--delete-emptydir-data", is_flag=True, help="Also evict pods with emptyDir volumes.")
@click.option("--force", is_flag=True, help="Also evict pods without a controller.")
@click.option("--disable-eviction", is_flag=True, help="Delete pods, bypassing disruption budgets.")
@grace_period_option
@click.option(
    "--timeout",
    default="0s",
    callback=duration_callback,
    metavar="DURATION",
    help="Give up after this time; 0s means never.",
)
@click.option("--pod-selector", default="", metavar="LABELS", help="Evict only pods with these labels.")
@dry_run_option
def drain(session: Session, nodes: tuple[str, ...], selector: str, **values: Any) -> None:  # noqa: ANN401 - one an option
    r"""Drain nodes for maintenance: cordon them, and evict their pods.

    Evictions respect disruption budgets: a refused eviction is retried. If some pods of a node cannot be
    evicted, the reasons are printed and none is evicted.

    \b
    Examples:
      shoal drain n1
      shoal drain n1 --ignore-daemonsets --delete-emptydir-data --force
      shoal drain -l rack=7 --timeout=5m
      shoal uncordon n1                          after the maintenance
    """
    failures, options = Failures(), DrainOptions(**values)
    for node in select_nodes(session, nodes, selector, failures):
        with failures.catch():
            set_unschedulable(session, node, unschedulable=True, dry_run=options.dry_run)
            drain_node(session, node, options, failures)
    failures.exit_if_any()


# --- cordon ------------------------------------------------------------------------------------------------


def select_nodes(session: Session, names: tuple[str, ...], selector: str, failures: Failures) -> list[str]:
    """The nodes that are named or selected; missing ones are reported as failures."""
    if not names and not selector:
        raise click.UsageError("name a node, or select some with -l")
    if selector:
        return [node["metadata"]["name"] for node in session.client.list(NODES, Selector(labels=selector))]
    found = []
    for name in names:
        with failures.catch():
            session.client.get(NODES, name)
            found.append(name)
    return found


def cordon_nodes(
    session: Session, names: tuple[str, ...], selector: str, *, unschedulable: bool, dry_run: str
) -> None:
    """Cordon or uncordon all selected nodes."""
    failures = Failures()
    for name in select_nodes(session, names, selector, failures):
        with failures.catch():
            set_unschedulable(session, name, unschedulable=unschedulable, dry_run=dry_run)
    failures.exit_if_any()


def set_unschedulable(session: Session, name: str, *, unschedulable: bool, dry_run: str) -> None:
    """Cordon or uncordon a node, and print a line."""
    node = session.client.get(NODES, name)
    verb = "cordoned" if unschedulable else "uncordoned"
    if bool(node.get("spec", {}).get("unschedulable")) is unschedulable:
        click.echo(f"node/{name} already {verb}{dry_run_suffix(dry_run)}")
        return
    if dry_run != "client":
        patch = {"spec": {"unschedulable": True if unschedulable else None}}
        session.client.patch(NODES, name, patch=patch, dry_run=dry_run == "server")
    click.echo(f"node/{name} {verb}{dry_run_suffix(dry_run)}")


# --- drain: which pods are evicted -------------------------------------------------------------------------


class DrainOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which pods a drain may evict, and how."""

    ignore_daemonsets: bool
    delete_emptydir_data: bool
    force: bool
    disable_eviction: bool
    grace_period: int
    timeout: float
    pod_selector: str
    dry_run: str


class PodDecision(msgspec.Struct, frozen=True):
    """Whether a pod is evicted; an error forbids the whole drain, a warning is printed."""

    evict: bool = True
    error: str = ""
    warning: str = ""


def drain_node(session: Session, node: str, options: DrainOptions, failures: Failures) -> None:
    """Evict all pods of a node, or none and report the reasons if one of them cannot be evicted."""
    selector = Selector(labels=options.pod_selector, fields=f"spec.nodeName={node}")
    decisions = [(pod, _check_pod(pod, options)) for pod in session.client.list(PODS, selector)]
    if errors := _grouped(decisions, "error"):
        failures.report(f'error: unable to drain node "{node}" due to error: {errors}')
        return
    if warnings := _grouped(decisions, "warning"):
        click.echo(f"Warning: {warnings}", err=True)
    pods = [pod for pod, decision in decisions if decision.evict]
    deadline = time.monotonic() + options.timeout if options.timeout else math.inf
    if _remove_pods(session, pods, options, deadline, failures):
        click.echo(f"node/{node} drained{dry_run_suffix(options.dry_run)}")


def _check_pod(pod: Object, options: DrainOptions) -> PodDecision:
    metadata = pod["metadata"]
    if "kubernetes.io/config.mirror" in (metadata.get("annotations") or {}):
        return PodDecision(evict=False)
    if (pod.get("status") or {}).get("phase") in FINISHED_PHASES:
        return PodDecision()
    owner = next((each for each in metadata.get("ownerReferences") or () if each.get("controller")), None)
    if owner and owner["kind"] == "DaemonSet" and options.ignore_daemonsets:
        return PodDecision(evict=False, warning="ignoring DaemonSet-managed Pods")
    if error := _eviction_error(pod, owner, options):
        return PodDecision(evict=False, error=error)
    return PodDecision(warning="" if owner else "deleting Pods that declare no controller")


def _eviction_error(pod: Object, owner: Object | None, options: DrainOptions) -> str:
    """Why a pod cannot be evicted; empty if it can."""
    if owner and owner["kind"] == "DaemonSet":
        return "cannot delete DaemonSet-managed Pods (use --ignore-daemonsets to ignore)"
    local = any("emptyDir" in volume for volume in pod["spec"].get("volumes") or ())
    if local and not options.delete_emptydir_data:
        return "cannot delete Pods with local storage (use --delete-emptydir-data to override)"
    if owner is None and not options.force:
        return "cannot delete Pods that declare no controller (use --force to override)"
    return ""


def _grouped(decisions: list[tuple[Object, PodDecision]], field: str) -> str:
    """The errors or warnings, each once, with the pods it applies to."""
    groups: dict[str, list[str]] = {}
    for pod, decision in decisions:
        if text := getattr(decision, field):
            groups.setdefault(text, []).append(_pod_name(pod))
    return "; ".join(f"{text}: {', '.join(sorted(pods))}" for text, pods in groups.items())


def _pod_name(pod: Object) -> str:
    return f"{pod['metadata'].get('namespace')}/{pod['metadata']['name']}"


# --- drain: eviction ---------------------------------------------------------------------------------------


def _remove_pods(
    session: Session, pods: list[Object], options: DrainOptions, deadline: float, failures: Failures
) -> bool:
    """Evict pods, retry while budgets refuse, and wait until they are gone; whether all are."""
    for pod in pods:
        verb = "deleting" if options.disable_eviction else "evicting"
        click.echo(f"{verb} pod {_pod_name(pod)}{dry_run_suffix(options.dry_run)}")
    if options.dry_run == "client":
        return True
    evicted = list[Object]()
    for pod in _evict_with_retries(session, pods, options, deadline, failures):
        evicted.append(pod)
    left = 0 if options.dry_run != "none" else _wait_until_gone(session, evicted, options, deadline, failures)
    return not left and len(evicted) == len(pods)


def _evict_with_retries(
    session: Session, pods: list[Object], options: DrainOptions, deadline: float, failures: Failures
) -> Iterator[Object]:
    """Evict pods until the deadline; yields each pod whose eviction was accepted."""
    waiting = list(pods)
    while waiting:
        refused = []
        for pod in waiting:
            try:
                _evict(session, pod, options)
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
                failures.report(f"error: {_pod_name(pod)} could not be evicted in time")
            return
        time.sleep(_RETRY_SECONDS if waiting else 0.0)


def _evict(session: Session, pod: Object, options: DrainOptions) -> None:
    metadata = pod["metadata"]
    body: dict[str, Any] = {"gracePeriodSeconds": options.grace_period} if options.grace_period >= 0 else {}
    dry_run = options.dry_run == "server"
    if options.disable_eviction:
        body |= {"dryRun": ["All"]} if dry_run else {}
        session.client.delete(PODS, metadata["name"], metadata["namespace"], options=body)
    else:
        session.client.evict(metadata["name"], metadata["namespace"], options=body, dry_run=dry_run)


def _wait_until_gone(
    session: Session, pods: list[Object], options: DrainOptions, deadline: float, failures: Failures
) -> int:
    """Wait until pods are gone; the number of pods that are not at the deadline."""
    left = 0
    for pod in pods:
        metadata = pod["metadata"]
        name, namespace = metadata["name"], metadata["namespace"]
        if wait_until(session.client, ObjectName(PODS, name, namespace), is_gone(metadata["uid"]), deadline):
            click.echo(f"pod/{name} {'deleted' if options.disable_eviction else 'evicted'}")
        else:
            left += 1
            failures.report(f"error: {_pod_name(pod)} has not terminated in time")
    return left
