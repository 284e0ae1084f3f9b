"""Access to a test's API server: tokens, kubeconfigs, keys, and a small client."""

import base64
import csv
import http.client
import json
import secrets
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ADMIN: Final = "admin"
UNPRIVILEGED: Final = "nobody"
USERS: Final[Mapping[str, Sequence[str]]] = {
    ADMIN: ("system:masters",),
    UNPRIVILEGED: (),
    "alice": ("team-a",),
    "bob": ("team-b",),
}
"""Users and their groups. Only the administrator has rights, until a test binds a role."""

_EC_KEY: Final = "30310201010420{}a00a06082a8648ce3d030107"
"""An elliptic curve private key (SEC 1, P-256) around its 32 random bytes."""

Tokens = Mapping[str, str]
Object = dict[str, Any]


def make_tokens(users: Mapping[str, Sequence[str]], path: Path) -> Tokens:
    """Create a token for every user, and write the file for kube-apiserver's --token-auth-file."""
    tokens = {user: secrets.token_hex(16) for user in users}
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(
            (tokens[user], user, f"uid-{user}", ",".join(groups)) for user, groups in users.items()
        )
    return tokens


def make_signing_key(path: Path) -> None:
    """Write a private key that signs the tokens of service accounts; an EC key needs no library."""
    number = bytearray(secrets.token_bytes(32))
    number[0] &= 0x7F  # always below the order of the curve
    encoded = base64.b64encode(bytes.fromhex(_EC_KEY.format(number.hex()))).decode()
    path.write_text(f"-----BEGIN EC PRIVATE KEY-----\n{encoded}\n-----END EC PRIVATE KEY-----\n")


def write_kubeconfig(path: Path, *, url: str, authority: bytes, user: str, token: str) -> None:
    """Write a kubeconfig of one user, in JSON, which every YAML parser reads."""
    cluster = {"server": url, "certificate-authority-data": base64.b64encode(authority).decode()}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
        "current-context": "test",
    }
    path.write_text(json.dumps(config, indent=2))


@dataclass(frozen=True)
class Client:
    """A JSON client of an API server for one user; errors of the server are returned, not raised."""

    url: str
    token: str
    tls: ssl.SSLContext

    def call(
        self, method: str, path: str, body: Object | None = None, *, media: str = "application/json"
    ) -> tuple[int, Object]:
        """Return the status code and the object of the response; `media` is the content type of the body."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": media}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)  # noqa: S310 - https
        try:
            with self._open(request) as answer:
                return answer.status, _decoded(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, _decoded(error.read())

    def _open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        """Connect to loopback directly, without a proxy of the environment."""
        direct = urllib.request.ProxyHandler({})
        opener = urllib.request.build_opener(direct, urllib.request.HTTPSHandler(context=self.tls))
        answer: http.client.HTTPResponse = opener.open(request, timeout=60)
        return answer

    def get(self, path: str) -> Object:
        """Return an object; errors are raised."""
        code, found = self.call("GET", path)
        if code >= 400:
            raise RuntimeError(f"GET {path}: {code} {found.get('message')}")
        return found

    def create(self, path: str, body: Object) -> Object:
        """Create an object, and return it; errors are raised."""
        code, made = self.call("POST", path, body)
        if code >= 400:
            raise RuntimeError(f"POST {path}: {code} {made.get('message')}")
        return made

    def ready(self) -> bool:
        """Return whether the server is ready; False if it cannot be reached."""
        try:
            return self.call("GET", "/readyz")[0] == 200
        except OSError:
            return False


def _decoded(text: bytes) -> Object:
    """Decode the object of a response; health checks and failures may respond with plain text."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"message": text.decode(errors="replace")}
