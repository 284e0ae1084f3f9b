"""What a pod is told that must leave can be read back; what others tell it is not taken for ours."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.kinds.pods import EvictionRecord, doom_in

WORKLOADS = st.sampled_from(["", "Pod/default/p", "Gang/team/with", "TYJob/for/for"])


@given(st.sampled_from(["Preempted", "Reclaimed", "Shrunk", "Moved", "GangLost"]), WORKLOADS, WORKLOADS)
def test_a_doom_is_read_as_it_was_written(reason: str, whole: str, beneficiary: str) -> None:
    doom = EvictionRecord(reason, whole, beneficiary)
    assert doom_in(str(doom)) == doom


@pytest.mark.parametrize("words", ["", "Eviction API: evicting", "Shoal: ", "Shoal: Preempted by somebody"])
def test_other_words_are_not_ours(words: str) -> None:
    assert doom_in(words) is None
