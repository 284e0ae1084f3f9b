"""Objects of a cluster, for commands: one request after another."""

import contextlib
import io
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote

import msgspec

from shoal.client.http import HttpClient, Query, Request
from shoal.cluster.errors import GoneError, NotFoundError
from shoal.cluster.kubernetes.access import Access
from shoal.cluster.kubernetes.wire import JSON, MERGE_PATCH
from shoal.cluster.port import EVERYTHING, Selector
from shoal.cluster.resources import Object, Resource, own_groups

TABLE_MEDIA_TYPE: Final = f"application/json;as=Table;v=v1;g=meta.k8s.io,{JSON}"
"""Accept header for rows of a table; a server that supports no tables answers with the objects."""

_PAGE_SIZE: Final = 500
_DRY_RUN: Final = "All"
_CRDS_HINT: Final = "; `shoal crds | shoal apply -f -` installs it"


class UnknownKindError(NotFoundError):
    """Raised when a name is not that of a kind of the cluster; the message suggests similar names."""


def unknown_kind(resource: Resource[Any]) -> UnknownKindError:
    """Return the error for a kind that the client knows and the server does not."""
    hint = _CRDS_HINT if resource.group in own_groups() else ""
    return UnknownKindError(f'the server doesn\'t have a resource type "{resource.plural}"{hint}')


class ObjectName(msgspec.Struct, frozen=True):
    """The resource, name and namespace of an object."""

    resource: Resource[Any]
    name: str
    namespace: str = ""


class Client:
    """Reads and writes the objects of one cluster; every method raises ClusterError."""

    def __init__(self, access: Access) -> None:
        self.http: Final = HttpClient(access)
        self.url: Final = access.url

    def close(self) -> None:
        """Close the connection."""
        self.http.close()

    def get_path(self, path: str, query: Query | None = None, *, accept: str = JSON) -> Object:
        """Return the JSON at a path."""
        return _decode(self.http.request(Request(path=path, query=query or {}, accept=accept)))

    def get(self, resource: Resource[Any], name: str, namespace: str = "", **more: str) -> Object:
        """Return one object; NotFoundError if there is none."""
        accept = more.pop("accept", JSON)
        return self.get_path(path_of(resource, namespace, name), more, accept=accept)

    def find(self, resource: Resource[Any], name: str, namespace: str = "") -> Object | None:
        """Return one object; None if there is none."""
        try:
            return self.get(resource, name, namespace)
        except NotFoundError:
            return None

    def pages(
        self,
        resource: Resource[Any],
        selector: Selector = EVERYTHING,
        *,
        accept: str = JSON,
        include: str = "",
    ) -> Iterator[Object]:
        """Yield a list page by page. If the continue token expires meanwhile, list again without pages."""
        query: dict[str, str | int] = {
            "labelSelector": selector.labels,
            "fieldSelector": selector.fields,
            "includeObject": include,
        }
        path, limit, start = path_of(resource, selector.namespace), _PAGE_SIZE, ""
        while True:
            try:
                page = self.get_path(path, {**query, "limit": limit, "continue": start}, accept=accept)
            except NotFoundError:
                raise unknown_kind(resource) from None
            except GoneError:
                if not start:
                    raise
                limit, start = 0, ""
                continue
            yield page
            start = page["metadata"].get("continue") or ""
            if not start:
                return

    def list(self, resource: Resource[Any], selector: Selector = EVERYTHING) -> list[Object]:
        """Return all selected objects, each with apiVersion and kind."""
        type_meta = {"apiVersion": resource.api_version, "kind": resource.kind}
        found = {
            _key(item): {**type_meta, **item}
            for page in self.pages(resource, selector)
            for item in page.get("items") or ()
        }
        return [*found.values()]

    def create(
        self,
        resource: Resource[Any],
        body: Object,
        namespace: str = "",
        *,
        dry_run: bool = False,
        **more: str,
    ) -> Object:
        """Create an object."""
        query = {"dryRun": _DRY_RUN if dry_run else "", **more}
        path = path_of(resource, namespace)
        return self._write(Request(method="POST", path=path, query=query, body=body))

    def patch(  # noqa: PLR0913 - the object, and the options
        self,
        resource: Resource[Any],
        name: str,
        namespace: str = "",
        *,
        patch: Any,  # noqa: ANN401 - any JSON
        media: str = MERGE_PATCH,
        subresource: str = "",
        dry_run: bool = False,
        **more: str,
    ) -> Object:
        """Change a part of an object."""
        query = {"dryRun": _DRY_RUN if dry_run else "", **more}
        path = path_of(resource, namespace, name, subresource)
        return self._write(Request(method="PATCH", path=path, query=query, body=patch, media=media))

    def delete(
        self, resource: Resource[Any], name: str, namespace: str = "", *, options: Object | None = None
    ) -> Object:
        """Delete an object, or mark it for deletion."""
        path = path_of(resource, namespace, name)
        return self._write(Request(method="DELETE", path=path, body=options or {}))

    def evict(self, name: str, namespace: str, *, options: Object, dry_run: bool = False) -> None:
        """Evict a pod; TooManyRequestsError if its disruption budgets do not allow that."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": options,
        }
        path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}/eviction"
        query = {"dryRun": _DRY_RUN} if dry_run else {}
        self._write(Request(method="POST", path=path, query=query, body=body, retry_busy=False))

    @contextlib.contextmanager
    def stream(
        self, path: str, query: Query, *, accept: str = JSON, idle_timeout: float | None = None
    ) -> Iterator[io.BufferedReader]:
        """Yield a response that is read as it arrives; it may be idle for `idle_timeout` seconds."""
        request = Request(path=path, query=query, accept=accept)
        with self.http.stream(request, idle_timeout=idle_timeout) as response:
            yield response

    def _write(self, request: Request) -> Object:
        return _decode(self.http.request(request))


def path_of(resource: Resource[Any], namespace: str = "", name: str = "", subresource: str = "") -> str:
    """Return the URL path of an object or collection; names are quoted."""
    return resource.path(quote(namespace, safe=""), quote(name, safe=""), subresource)


def _decode(text: bytes) -> Object:
    return msgspec.json.decode(text, type=dict[str, Any])


def _key(item: Object) -> tuple[str, str]:
    """Return the key of an object. A list that was restarted has some objects twice: the later counts."""
    return item["metadata"].get("namespace", ""), item["metadata"]["name"]
