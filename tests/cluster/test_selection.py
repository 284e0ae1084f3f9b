"""Label and field selectors, with objects that match and objects that do not."""

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.cluster.errors import BadRequestError
from shoal.cluster.port import Selector
from shoal.cluster.resources import EVENTS, JOBS, NODES, PODS, SECRETS, Object, Resource, resource_of
from shoal.cluster.selection import CompiledSelector

LABELS = {"team": "a", "tier": "web", "size": "10", "example.com/x": ""}
LABEL_SELECTORS: dict[str, bool] = {
    "": True,
    "team=a": True,
    "team==a": True,
    "team = a": True,
    "team=b": False,
    "team!=a": False,
    "team!=b": True,
    "absent!=b": True,
    "team": True,
    "absent": False,
    "!absent": True,
    "! absent": True,
    "!team": False,
    "team in (a,b)": True,
    "team in (b, a )": True,
    "team in (b)": False,
    "team notin (b,c)": True,
    "team notin (a)": False,
    "absent notin (a)": True,
    "absent in (a)": False,
    "size>9": True,
    "size>10": False,
    "size<11": True,
    "team>1": False,
    "absent<5": False,
    "example.com/x": True,
    "example.com/x=": True,
    "team=a,tier=web": True,
    "team=a,tier=db": False,
    "team in (a,b),tier,!absent,size>1": True,
    " team=a , tier=web ": True,
}
INVALID_LABEL_SELECTORS = [
    "a b",
    "=a",
    "a===b",
    "a=b,",
    ",a",
    "a in b",
    "a in (b",
    "a in (b c)",
    "a notin",
    "a>b",
    "a=b c",
    "a b=c",
    "-a=b",
    "a=-b",
    "!",
    "!a=b",
]


def matches(selector: Selector, body: Object, resource: Resource[Object] = PODS) -> bool:
    return CompiledSelector(resource, selector).matches(msgspec.json.encode(body))


@pytest.mark.parametrize("selector", LABEL_SELECTORS)
def test_labels(selector: str) -> None:
    body = {"metadata": {"name": "x", "labels": LABELS}, "spec": {"labels": {"team": "other"}}}
    assert matches(Selector(labels=selector), body) is LABEL_SELECTORS[selector]


@pytest.mark.parametrize("selector", INVALID_LABEL_SELECTORS)
def test_invalid_label_selectors(selector: str) -> None:
    with pytest.raises(BadRequestError, match="unable to parse requirement"):
        CompiledSelector(PODS, Selector(labels=selector))


@pytest.mark.parametrize("body", [{}, {"metadata": {}}, {"metadata": {"labels": None}}], ids=str)
def test_objects_without_labels(body: Object) -> None:
    assert matches(Selector(labels="!a"), body)
    assert not matches(Selector(labels="a"), body)


FIELDS: list[tuple[Resource[Object], str, Object, bool]] = [
    (PODS, "metadata.name=a", {"metadata": {"name": "a"}}, True),
    (PODS, "metadata.name==a", {"metadata": {"name": "a"}}, True),
    (PODS, "metadata.name!=a", {"metadata": {"name": "a"}}, False),
    (PODS, "spec.nodeName=", {"spec": {}}, True),
    (PODS, "spec.nodeName=", {"spec": {"nodeName": "n"}}, False),
    (PODS, "spec.nodeName=n,status.phase!=Failed", {"spec": {"nodeName": "n"}}, True),
    (PODS, "status.phase=Running,", {"status": {"phase": "Running"}}, True),
    (PODS, r"spec.nodeName=a\,b\=c\\", {"spec": {"nodeName": "a,b=c\\"}}, True),
    (PODS, "spec.hostNetwork=false", {"spec": {}}, True),
    (NODES, "spec.unschedulable=true", {"spec": {"unschedulable": True}}, True),
    (NODES, "spec.unschedulable=false", {}, True),
    (SECRETS, "type=Opaque", {"type": "Opaque"}, True),
    (JOBS, "status.successful=0", {"status": {}}, True),
    (JOBS, "status.successful=2", {"status": {"succeeded": 2}}, True),
    (EVENTS, "involvedObject.name=a,reason=R", {"involvedObject": {"name": "a"}, "reason": "R"}, True),
    (EVENTS, "source=s", {"source": {"component": "s"}}, True),
    (resource_of("DIJob"), "status.phase=Running", {"status": {"phase": "Running"}}, True),
    (resource_of("TYJob"), "status.stage!=Done", {}, True),
]


@pytest.mark.parametrize("row", FIELDS, ids=lambda row: f"{row[0].plural} {row[1]} {row[2]}")
def test_fields(row: tuple[Resource[Object], str, Object, bool]) -> None:
    resource, selector, body, expected = row
    assert matches(Selector(fields=selector), body, resource) is expected


INVALID_FIELD_SELECTORS = {
    "spec.image=x": "field label not supported: spec.image",
    "status.stage=x": "field label not supported",
    "foo": "can't understand 'foo'",
}


@pytest.mark.parametrize("selector", INVALID_FIELD_SELECTORS)
def test_invalid_field_selectors(selector: str) -> None:
    with pytest.raises(BadRequestError, match=re.escape(INVALID_FIELD_SELECTORS[selector])):
        CompiledSelector(PODS, Selector(fields=selector))


@given(st.text(max_size=30))
def test_any_text_is_a_selector_or_a_bad_request(selector: str) -> None:
    for candidate in (Selector(labels=selector), Selector(fields=selector)):
        try:
            compiled = CompiledSelector(PODS, candidate)
        except BadRequestError:
            continue
        assert isinstance(compiled.matches(b'{"metadata":{"name":"a","labels":{"a":"b"}}}'), bool)


words = st.from_regex(r"[a-z]([a-z0-9-]{0,5}[a-z0-9])?", fullmatch=True)


@given(st.dictionaries(words, words, max_size=4), st.dictionaries(words, words, max_size=3))
def test_all_equalities_must_hold(labels: dict[str, str], wanted: dict[str, str]) -> None:
    selector = ",".join(f"{key}={value}" for key, value in wanted.items())
    expected = all(labels.get(key) == value for key, value in wanted.items())
    assert matches(Selector(labels=selector), {"metadata": {"labels": labels}}) is expected
