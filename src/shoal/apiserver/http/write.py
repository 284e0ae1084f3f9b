"""Handlers of writes: create, update, the three patches, delete, binding and eviction."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final, Literal, TypeVar

import msgspec
from starlette.responses import Response

from shoal.api import kinds
from shoal.api.kinds import Kind
from shoal.apiserver.http import bodies
from shoal.apiserver.http.bodies import Body, apply_target
from shoal.apiserver.http.requests import (
    NAME,
    STATUS,
    FieldValidation,
    RequestContext,
    WriteOptions,
    bool_param,
    int_param,
    parse_dry_run,
    parse_list_options,
    parse_write_options,
)
from shoal.apiserver.http.responses import (
    Representation,
    encode_list,
    json_response,
    raw_json_response,
    success_status,
    warning_headers,
)
from shoal.apiserver.strategies.schemas import DecodedObject, decode_object
from shoal.cluster.errors import BadRequestError, InvalidError, UnsupportedMediaError
from shoal.cluster.patches import json_patch, strategic
from shoal.cluster.port import Deletion, Propagation
from shoal.cluster.resources import PODS, Object
from shoal.cluster.schemas.kinds import is_shoal_kind, schema_of

_MERGE: Final = "application/merge-patch+json"
_JSON_PATCH: Final = "application/json-patch+json"
_STRATEGIC: Final = "application/strategic-merge-patch+json"


async def create(context: RequestContext) -> Response:
    """Handle a create."""
    options = parse_write_options(context.request.query_params)
    body = await bodies.read_object(context.request, duplicates=options.field_validation != "Ignore")
    obj, warnings = _decode_sent(context, body, options)
    setattr(context.request.state, NAME, str(obj.value["metadata"].get("name") or ""))
    text = await context.registry.create(context.target.raw_resource, obj, dry_run=options.dry_run)
    if is_shoal_kind(context.target.resource):
        warnings += map(str, _kind(context).warnings(msgspec.json.decode(text)))
    return _response(context, text, warnings, HTTPStatus.CREATED)


def _kind(context: RequestContext) -> Kind:
    resource = context.target.resource
    return kinds.by_name()[resource.api_version, resource.kind]


async def update(context: RequestContext) -> Response:
    """Handle an update of an object or its status."""
    options = parse_write_options(context.request.query_params)
    body = await bodies.read_object(context.request, duplicates=options.field_validation != "Ignore")
    obj, warnings = _decode_sent(context, body, options)
    status = context.target.subresource == STATUS
    text = await context.registry.update(
        context.target.raw_resource, obj, status=status, dry_run=options.dry_run
    )
    return _response(context, text, warnings)


async def patch(context: RequestContext) -> Response:
    """Handle a patch of an object or its status."""
    options = parse_write_options(context.request.query_params)
    apply = _patch_function(context)
    body = bodies.decode_json(
        await bodies.read(context.request), duplicates=options.field_validation != "Ignore"
    )
    warnings: list[str] = []

    def make(obj: Object) -> DecodedObject:
        return _decode_object(
            context,
            _check_patched(apply(obj, body.value), context),
            options.field_validation,
            body.duplicates,
            warnings,
        )

    target = context.target
    text = await context.registry.guaranteed_update(
        target.raw_resource,
        target.name,
        target.namespace,
        make,
        status=target.subresource == STATUS,
        dry_run=options.dry_run,
    )
    return _response(context, text, warnings)


def _patch_function(context: RequestContext) -> Callable[[Object, Any], Any]:
    """Return the function that applies a patch of the request's media type."""
    media, resource = bodies.media_type(context.request), context.target.resource
    if media == _MERGE:
        return _merge_patch
    if media == _JSON_PATCH:
        return json_patch.apply_json_patch
    if media == _STRATEGIC and not is_shoal_kind(resource):
        return lambda obj, patch: strategic.apply_strategic_patch(obj, patch, schema_of(resource))
    accepted = [_JSON_PATCH, _MERGE, *([] if is_shoal_kind(resource) else [_STRATEGIC])]
    raise UnsupportedMediaError(
        "the body of the request was in an unknown format - accepted media types include: "
        f"{', '.join(accepted)}"
    )


def _merge_patch(obj: Object, patch: object) -> object:
    if not isinstance(patch, dict):
        raise BadRequestError("a merge patch must be an object")
    return json_patch.apply_merge_patch(obj, patch)


def _check_patched(result: object, context: RequestContext) -> Object:
    """Check that the result of a patch is still an object of the kind, name and namespace."""
    if not isinstance(result, dict):
        raise InvalidError("the result of a patch must be an object")
    resource = context.target.resource
    if (result.get("apiVersion"), result.get("kind")) != (resource.api_version, resource.kind):
        raise InvalidError(f"a patch cannot change kind {resource.kind} or apiVersion {resource.api_version}")
    return apply_target(result, context.target)


def _decode_sent(
    context: RequestContext, body: Body, options: WriteOptions
) -> tuple[DecodedObject, list[str]]:
    """Decode the object of a request by its schema; returns it with the warnings for the client."""
    warnings: list[str] = []
    return _decode_object(
        context, apply_target(body.value, context.target), options.field_validation, body.duplicates, warnings
    ), warnings


def _decode_object(
    context: RequestContext,
    obj: Object,
    validation: FieldValidation,
    duplicates: tuple[str, ...],
    warnings: list[str],
) -> DecodedObject:
    """Drop unknown fields by the schema; depending on `validation`, warn about or refuse them."""
    resource = context.target.resource
    decoded = decode_object(resource, obj)
    refused = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}'
    if decoded.wrong:
        # The result of a patch is invalid (422); a whole object is a bad request (400).
        error = InvalidError if context.request.method == "PATCH" else BadRequestError
        raise error(f"{refused}: {'; '.join(decoded.wrong)}")
    problems = [f'unknown field "{path}"' for path in decoded.unknown]
    problems += [f'duplicate field "{path}"' for path in duplicates]
    if validation == "Strict" and problems:
        raise BadRequestError(f"{refused}: strict decoding error: {', '.join(problems)}")
    warnings += problems if validation == "Warn" else []
    return decoded


def _response(
    context: RequestContext, text: bytes, warnings: list[str], code: HTTPStatus = HTTPStatus.OK
) -> Response:
    representation = Representation.for_request(context)
    answer = raw_json_response(representation.encode(text), code)
    for warning in warning_headers(warnings):
        answer.headers.append("Warning", warning)
    return answer


_KINDS: Final = (None, "", "DeleteOptions")


class _Preconditions(msgspec.Struct, rename="camel"):
    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(msgspec.Struct, rename="camel"):
    """DeleteOptions of the API."""

    kind: str | None = None
    grace_period_seconds: int | None = None
    propagation_policy: Literal["Background", "Foreground", "Orphan"] | None = None
    orphan_dependents: bool | None = None
    preconditions: _Preconditions | None = None
    dry_run: list[str] | None = None


class _Uid(msgspec.Struct):
    uid: str = ""


class _MetadataOnly(msgspec.Struct):
    metadata: _Uid


_metadata_decoder: Final = msgspec.json.Decoder(_MetadataOnly)


async def delete(context: RequestContext) -> Response:
    """Handle the deletion of one object; responds with the object if it still exists, or is a pod."""
    target, deletion = context.target, await _parse_deletion(context)
    before = await context.registry.get(target.raw_resource, target.name, target.namespace)
    left = await context.registry.delete(target.raw_resource, target.name, target.namespace, deletion)
    if left is None and target.resource.full_name == PODS.full_name:
        left = _with_zero_grace(before)
    if left is None:
        return json_response(success_status(target, _metadata_decoder.decode(before).metadata.uid))
    return raw_json_response(Representation.for_request(context).encode(left))


def _with_zero_grace(before: bytes) -> bytes:
    """Return the deleted pod with a grace period of 0, so that clients do not wait for its deletion."""
    pod = msgspec.json.decode(before)
    pod["metadata"]["deletionGracePeriodSeconds"] = 0
    return msgspec.json.encode(pod)


async def delete_all(context: RequestContext) -> Response:
    """Handle the deletion of a collection."""
    options = parse_list_options(context.request.query_params, context.target.namespace)
    gone = await context.registry.delete_all(
        context.target.raw_resource, options.selector, await _parse_deletion(context)
    )
    resource = context.target.resource
    metadata = {"resourceVersion": context.registry.version}
    return raw_json_response(encode_list(f"{resource.kind}List", resource.api_version, metadata, list(gone)))


async def _parse_deletion(context: RequestContext) -> Deletion:
    """Parse the delete options from the body, or without one from the query."""
    query = context.request.query_params
    if text := await bodies.read(context.request):
        return deletion_from(bodies.decode_object(text, bodies.media_type(context.request)).value)
    values: dict[str, Any] = {
        "gracePeriodSeconds": int_param(query, "gracePeriodSeconds"),
        "propagationPolicy": query.get("propagationPolicy") or None,
        "orphanDependents": bool_param(query, "orphanDependents") if "orphanDependents" in query else None,
        "dryRun": query.getlist("dryRun"),
    }
    return deletion_from(values)


def deletion_from(values: object) -> Deletion:
    """Convert DeleteOptions to the port's type."""
    try:
        options = msgspec.convert(values or {}, DeleteOptions)
    except msgspec.ValidationError as error:
        raise BadRequestError(f"DeleteOptions cannot be read: {error}") from None
    if options.kind not in _KINDS:
        raise BadRequestError(f"the body must be DeleteOptions, not {options.kind}")
    preconditions = options.preconditions or _Preconditions()
    return Deletion(
        grace=options.grace_period_seconds,
        propagation=_propagation(options),
        uid=preconditions.uid or "",
        version=preconditions.resource_version or "",
        dry_run=parse_dry_run(options.dry_run or []),
    )


def _propagation(options: DeleteOptions) -> Propagation | None:
    if options.orphan_dependents is None:
        return options.propagation_policy
    if options.propagation_policy is not None:
        raise BadRequestError("orphanDependents and propagationPolicy cannot be set together")
    return "Orphan" if options.orphan_dependents else "Background"


T = TypeVar("T")


class _NodeReference(msgspec.Struct):
    name: str = ""
    kind: str | None = None


class _Metadata(msgspec.Struct):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None


class _Binding(msgspec.Struct):
    target: _NodeReference
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class _Eviction(msgspec.Struct, rename="camel"):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    delete_options: dict[str, Any] | None = None


async def bind(context: RequestContext) -> Response:
    """Handle the binding of a pod to a node."""
    binding = await _decode(context, _Binding)
    if binding.target.kind not in (None, "", "Node") or not binding.target.name:
        raise BadRequestError("target must be a Node with a name")
    name = _pod_name(context, binding.metadata)
    is_dry_run = parse_dry_run(context.request.query_params.getlist("dryRun"))
    uid = binding.metadata.uid or ""
    await context.registry.bind(
        name, context.target.namespace, binding.target.name, uid=uid, dry_run=is_dry_run
    )
    return json_response(_created_status(), HTTPStatus.CREATED)


async def evict(context: RequestContext) -> Response:
    """Handle the eviction of a pod."""
    eviction = await _decode(context, _Eviction)
    name = _pod_name(context, eviction.metadata)
    deletion = deletion_from(eviction.delete_options)
    if parse_dry_run(context.request.query_params.getlist("dryRun")):
        deletion = msgspec.structs.replace(deletion, dry_run=True)
    await context.registry.evict(name, context.target.namespace, deletion)
    return json_response(_created_status(), HTTPStatus.CREATED)


def _created_status() -> dict[str, Any]:
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


async def _decode(context: RequestContext, kind: type[T]) -> T:
    body = await bodies.read_object(context.request)
    try:
        return msgspec.convert(body.value, kind)
    except msgspec.ValidationError as error:
        raise BadRequestError(f"{kind.__name__.strip('_')} cannot be read: {error}") from None


def _pod_name(context: RequestContext, metadata: _Metadata) -> str:
    """Return the pod's name from the path, or for a binding posted to the collection from the body."""
    name, target = metadata.name or "", context.target
    if target.name and name not in ("", target.name):
        raise BadRequestError("name in URL does not match name in the object")
    if metadata.namespace not in (None, "", target.namespace):
        raise BadRequestError(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if not (target.name or name):
        raise BadRequestError("metadata.name must be the name of a pod")
    return target.name or name
