"""What several kinds do with manifests of jobs: scale a member of a list, find and check pod specs."""

from collections.abc import Iterable, Iterator, Sequence

from shoal.api.fields import FieldError, shown
from shoal.kinds.base import CannotScaleError, Manifest, ScalePatch


def scale_member(  # noqa: PLR0913 - which number of which member
    manifest: Manifest, field: str, names: Sequence[str], *, number: str, replicas: int, role: str
) -> ScalePatch:
    """Change a number of one member of a list in the spec.

    A merge patch replaces lists as a whole, so the patch carries the resourceVersion that was read.
    """
    if not role and len(names) == 1:
        role = names[0]
    if role not in names:
        raise CannotScaleError(f"has {' and '.join(names)}: say which with --role")
    members = [
        {**member, number: replicas} if name == role else member
        for name, member in zip(names, manifest["spec"][field], strict=True)
    ]
    version = manifest["metadata"]["resourceVersion"]
    return ScalePatch({"metadata": {"resourceVersion": version}, "spec": {field: members}})


def template_pod_spec(holder: Manifest, path: str) -> Sequence[tuple[str, Manifest]]:
    """The pod spec of the `template` of a part of a manifest, with its field path; nothing if it has none."""
    spec = (holder.get("template") or {}).get("spec")
    return [(f"{path}.template.spec", spec)] if spec else []


def restart_policy_warnings(pod_specs: Iterable[tuple[str, Manifest]]) -> Iterator[FieldError]:
    """Warn of a restart policy in a template: the controller of the job restarts pods, and counts it."""
    for path, spec in pod_specs:
        policy = spec.get("restartPolicy") or "Never"
        if policy != "Never":
            message = f"is always Never, because Shoal recreates pods that failed; {shown(policy)} is ignored"
            yield FieldError(f"{path}.restartPolicy", message)
