"""Objects of a cluster, for commands: asked for one after another.

Waiting for one object: until something holds of it, or until it is gone.
"""

import contextlib
import io
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote

import msgspec

from shoal.client.errors import absent
from shoal.client.http import JSON, MERGE_PATCH, Http, Query, Request
from shoal.cluster.errors import GoneError, NotFoundError
from shoal.cluster.kubernetes.access import Access
from shoal.cluster.port import EVERYWHERE, Where
from shoal.cluster.resources import Object, Resource

TABLE: Final = f"application/json;as=Table;v=v1;g=meta.k8s.io,{JSON}"
"""What is accepted when rows of a table are wanted: a server that makes none answers with the objects."""

_PAGE: Final = 500
_DRY: Final = "All"


class Named(msgspec.Struct, frozen=True):
    """An object by its name."""

    resource: Resource[Any]
    name: str
    namespace: str = ""


class Client:
    """Speaks of the objects of one cluster; every method raises ClusterError."""

    def __init__(self, access: Access) -> None:
        self.http: Final = Http(access)
        self.url: Final = access.url

    def close(self) -> None:
        """Let go of the connection."""
        self.http.close()

    def ask(self, path: str, query: Query | None = None, *, accept: str = JSON) -> Object:
        """Whatever is at a path."""
        return _decoded(self.http.ask(Request(path=path, query=query or {}, accept=accept)))

    def get(self, resource: Resource[Any], name: str, namespace: str = "", **more: str) -> Object:
        """One object."""
        accept = more.pop("accept", JSON)
        return self.ask(path_of(resource, namespace, name), more, accept=accept)

    def find(self, resource: Resource[Any], name: str, namespace: str = "") -> Object | None:
        """One object, if there is one."""
        try:
            return self.get(resource, name, namespace)
        except NotFoundError:
            return None

    def pages(
        self, resource: Resource[Any], where: Where = EVERYWHERE, *, accept: str = JSON, include: str = ""
    ) -> Iterator[Object]:
        """A list, page by page. If it takes so long that its rest is gone, it is begun again in one piece."""
        said: dict[str, str | int] = {
            "labelSelector": where.labels,
            "fieldSelector": where.fields,
            "includeObject": include,
        }
        path, limit, start = path_of(resource, where.namespace), _PAGE, ""
        while True:
            try:
                page = self.ask(path, {**said, "limit": limit, "continue": start}, accept=accept)
            except NotFoundError:
                raise absent(resource) from None
            except GoneError:
                if not start:
                    raise
                limit, start = 0, ""
                continue
            yield page
            start = page["metadata"].get("continue") or ""
            if not start:
                return

    def list(self, resource: Resource[Any], where: Where = EVERYWHERE) -> list[Object]:
        """All objects that are meant, each saying what it is."""
        told = {"apiVersion": resource.api_version, "kind": resource.kind}
        found = {
            _key(item): {**told, **item}
            for page in self.pages(resource, where)
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
        """Make an object."""
        query = {"dryRun": _DRY if dry_run else "", **more}
        path = path_of(resource, namespace)
        return self._write(Request(method="POST", path=path, query=query, body=body))

    def patch(  # noqa: PLR0913 - which object, and how
        self,
        resource: Resource[Any],
        name: str,
        namespace: str = "",
        *,
        patch: Any,  # noqa: ANN401 - whatever JSON has
        media: str = MERGE_PATCH,
        part: str = "",
        dry_run: bool = False,
        **more: str,
    ) -> Object:
        """Change a part of an object."""
        query = {"dryRun": _DRY if dry_run else "", **more}
        path = path_of(resource, namespace, name, part)
        return self._write(Request(method="PATCH", path=path, query=query, body=patch, media=media))

    def delete(
        self, resource: Resource[Any], name: str, namespace: str = "", *, options: Object | None = None
    ) -> Object:
        """Delete an object, or begin to."""
        path = path_of(resource, namespace, name)
        return self._write(Request(method="DELETE", path=path, body=options or {}))

    def evict(self, name: str, namespace: str, *, options: Object, dry_run: bool = False) -> None:
        """Delete a pod as far as its disruption budgets allow; TooManyRequestsError if they do not."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": options,
        }
        path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}/eviction"
        query = {"dryRun": _DRY} if dry_run else {}
        self._write(Request(method="POST", path=path, query=query, body=body, patient=False))

    @contextlib.contextmanager
    def stream(
        self, path: str, query: Query, *, accept: str = JSON, silence: float | None = None
    ) -> Iterator[io.BufferedReader]:
        """An answer that is read as it comes."""
        with self.http.stream(Request(path=path, query=query, accept=accept), silence=silence) as answer:
            yield answer

    def _write(self, request: Request) -> Object:
        return _decoded(self.http.ask(request))


def path_of(resource: Resource[Any], namespace: str = "", name: str = "", part: str = "") -> str:
    """Where something is, whatever characters a person put into its name."""
    return resource.path(quote(namespace, safe=""), quote(name, safe=""), part)


def _decoded(text: bytes) -> Object:
    return msgspec.json.decode(text, type=dict[str, Any])


def _key(item: Object) -> tuple[str, str]:
    """A list that was begun again has some objects twice: the later counts."""
    return item["metadata"].get("namespace", ""), item["metadata"]["name"]
