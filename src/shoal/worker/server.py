"""A client of the DI server, with the job's own token; docs/server.md describes the calls."""

import functools
import http.client
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

_TIMEOUT: Final = 10.0
"""Seconds until a call is given up."""


class ServerError(Exception):
    """Raised when a call to the server fails.

    `status` is the HTTP status; 0 if there was no answer. `is_temporary`: a later call may succeed.
    """

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status: Final = status

    @property
    def is_temporary(self) -> bool:
        """Whether the server was not reached, or could not work."""
        return self.status == 0 or self.status >= HTTPStatus.INTERNAL_SERVER_ERROR


class DIServer:
    """The calls that a DIJob may make."""

    def __init__(self, client: "Client", url: str, job_id: str, token: str) -> None:
        self._client: Final = client
        self._root: Final = f"{url.rstrip('/')}/v2alpha1/{job_id}"
        self._token: Final = token

    def report(self, figures: Mapping[str, Any]) -> None:
        """Merge figures into the profilings of the job."""
        self._client.call("POST", f"{self._root}/profilings", self._token, {"data": dict(figures)})

    def scale(self, change: int) -> int:
        """Request so many workers more, or fewer; return the size that is requested now."""
        method = "POST" if change > 0 else "DELETE"
        body = {"replicas": abs(change)}
        return int(self._client.call(method, f"{self._root}/replicas", self._token, body))


class TrainerServer:
    """The call that every job may make: the status of a trainer, in the form of Kubeflow Trainer."""

    def __init__(self, client: "Client", url: str, token_file: str) -> None:
        self._client: Final = client
        self._url: Final = url
        self._token_file: Final = Path(token_file)

    def report(self, figures: Mapping[str, Any]) -> None:
        """Report figures; progress in percent is a field of its own, others are texts."""
        status: dict[str, Any] = {
            "metrics": [
                {"name": name, "value": value if isinstance(value, str) else json.dumps(value)}
                for name, value in figures.items()
                if name != "progress"
            ]
        }
        if "progress" in figures:
            status["progressPercentage"] = int(min(max(figures["progress"], 0), 100))
        token = self._token_file.read_text().strip()
        self._client.call("POST", self._url, token, {"trainerStatus": status})

    def scale(self, change: int) -> int:
        """Raise ServerError: the size of these jobs is in their spec."""
        raise ServerError(f"cannot scale by {change}: only workers of a DIJob can", HTTPStatus.CONFLICT)


Server = DIServer | TrainerServer


def find_server(environment: Mapping[str, str]) -> Server | None:
    """Return the server that the environment of a pod names; None if it names none."""
    client = Client(environment.get("KUBEFLOW_TRAINER_SERVER_CA_CERT"))
    names = ("DI_SERVER_URL", "DI_JOB_ID", "DI_SERVER_TOKEN")
    if all(environment.get(name) for name in names):
        return DIServer(client, *(environment[name] for name in names))
    url, token = (environment.get(f"KUBEFLOW_TRAINER_SERVER_{name}") for name in ("URL", "TOKEN"))
    return TrainerServer(client, url, token) if url and token else None


class Client:
    """Sends requests; `authority` is a file with the certificates to trust, None those of the system."""

    def __init__(self, authority: str | None = None) -> None:
        self._authority: Final = authority

    @functools.cached_property
    def _opener(self) -> urllib.request.OpenerDirector:
        """The server is in the cluster, and a proxy of the environment leads out of it: it is not used."""
        context = ssl.create_default_context(cafile=self._authority)
        https = urllib.request.HTTPSHandler(context=context)
        return urllib.request.build_opener(urllib.request.ProxyHandler({}), https)

    def call(self, method: str, url: str, token: str, body: Mapping[str, Any]) -> Any:  # noqa: ANN401 - as JSON has it
        """Return the data of the reply; ServerError if the call failed."""
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        text = json.dumps(body, allow_nan=False).encode()
        request = urllib.request.Request(url, text, headers, method=method)  # noqa: S310 - the URL of the job's server
        try:
            with self._opener.open(request, timeout=_TIMEOUT) as response:
                return _data_of(json.load(response))
        except urllib.error.HTTPError as error:
            raise ServerError(_message_of(error), error.code) from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise ServerError(f"{url}: {error}") from error


def _data_of(reply: object) -> Any:  # noqa: ANN401 - as JSON has it
    if not isinstance(reply, dict) or "data" not in reply:
        raise ValueError("the reply is not one of the DI server")
    return reply["data"]


def _message_of(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.load(error)["message"])
    except (OSError, ValueError, KeyError, TypeError):
        return f"HTTP status {error.code}"
