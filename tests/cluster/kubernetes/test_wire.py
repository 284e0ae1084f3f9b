"""Lines of a stream, however it is split; statuses, whatever a server sends."""

from hypothesis import given
from hypothesis import strategies as st

from shoal.cluster.kubernetes.wire import LineSplitter, parse_status


@given(st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b" "))), st.data())
def test_lines_do_not_depend_on_how_the_stream_is_split(lines: list[bytes], data: st.DataObject) -> None:
    text = b"".join(line + b"\n" for line in lines) + data.draw(st.sampled_from([b"", b"rest"]))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)))))
    chunks = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    splitter = LineSplitter()
    found = [line for chunk in chunks for line in splitter.feed(chunk)]
    assert found == [line for line in lines if line]
    assert splitter.has_partial_line == text.endswith(b"rest")


def test_parse_status() -> None:
    assert parse_status(b'{"code": 404}') == {"code": 404}
    assert parse_status(b"[1]") == {"message": "[1]"}
    assert parse_status(b" down \xff for repairs\n") == {"message": "down \ufffd for repairs"}
