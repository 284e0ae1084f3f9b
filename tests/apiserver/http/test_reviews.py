"""Reviews: the answers, and the clients that ask for them."""

import json
from typing import Any

import kubernetes
import pytest

from shoal.apiserver.http.reviews import USER
from tests.apiserver.http.api_server import Embedded

client: Any = kubernetes.client
config_of: Any = kubernetes.config.load_kube_config
"""The types of the client declare every field optional."""

ACCESS = "/apis/authorization.k8s.io/v1"
IDENTITY = "/apis/authentication.k8s.io/v1"
CREATE_PODS = {"resourceAttributes": {"verb": "create", "resource": "pods", "namespace": "default"}}

ANSWERS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "the caller may do everything": (
        f"{ACCESS}/selfsubjectaccessreviews",
        CREATE_PODS,
        {"allowed": True},
    ),
    "the user of the home may do everything": (
        f"{ACCESS}/subjectaccessreviews",
        CREATE_PODS | {"user": USER["username"]},
        {"allowed": True},
    ),
    "members of system:masters may do everything": (
        f"{ACCESS}/subjectaccessreviews",
        CREATE_PODS | {"user": "bob", "groups": ["system:masters"]},
        {"allowed": True},
    ),
    "other users may do nothing": (
        f"{ACCESS}/namespaces/default/localsubjectaccessreviews",
        CREATE_PODS | {"user": "bob"},
        {"allowed": False},
    ),
    "the caller has all rules": (
        f"{ACCESS}/selfsubjectrulesreviews",
        {"namespace": "default"},
        {"incomplete": False},
    ),
    "the caller is the user of the home": (f"{IDENTITY}/selfsubjectreviews", {}, {"userInfo": USER}),
    "a wrong token is not valid": (
        f"{IDENTITY}/tokenreviews",
        {"token": "wrong"},
        {"authenticated": False},
    ),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_reviews_are_answered_and_not_stored(api: Embedded, case: str) -> None:
    path, spec, expected = ANSWERS[case]
    reply = api.ask("POST", path, json.dumps({"spec": spec}).encode(), {"Content-Type": "application/json"})
    assert reply.code == 201
    assert expected.items() <= reply.json["status"].items()
    assert reply.json["spec"] == spec
    assert api.ask("GET", path).code == 405


def test_the_token_of_the_home_is_valid(api: Embedded) -> None:
    body = {"spec": {"token": api.credentials.token}}
    reply = api.client().create(f"{IDENTITY}/tokenreviews", body)
    assert reply["status"] == {"authenticated": True, "user": USER}


def test_a_review_needs_a_token(api: Embedded) -> None:
    reply = api.ask("POST", f"{ACCESS}/selfsubjectaccessreviews", b"{}", {"Authorization": ""})
    assert reply.code == 401


def test_kubectl_asks_for_permissions_and_identity(api: Embedded) -> None:
    assert api.kubectl("auth", "can-i", "create", "pods").stdout == "yes\n"
    assert "*.*" in api.kubectl("auth", "can-i", "--list").stdout
    assert USER["username"] in api.kubectl("auth", "whoami").stdout


def test_the_python_client_asks_for_permissions(api: Embedded) -> None:
    config = client.Configuration()
    config_of(str(api.kubeconfig()), client_configuration=config)
    with client.ApiClient(config) as made:
        review = client.V1SelfSubjectAccessReview(spec=client.V1SelfSubjectAccessReviewSpec())
        answer = client.AuthorizationV1Api(made).create_self_subject_access_review(review)
    assert answer.status.allowed is True
