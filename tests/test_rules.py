"""Each rule by itself, over rows that no database holds: every comparison, sort key and tie-break.

`make mutants` inverts them one by one; a test here must then fail.
"""

from __future__ import annotations

from copy import deepcopy
from itertools import permutations
from typing import Any

import pytest

from ctxdb.claude import read_entry
from ctxdb.claude.git_output import GitOp
from ctxdb.claude.human_text import turn_kind
from ctxdb.claude.names import is_unique_id
from ctxdb.claude.token_counts import count, counters, request_key, usage_lines
from ctxdb.rows import AgentFact, Event, Message, Skip, ToolUse, UsageLine
from ctxdb.rules.calls import (
    Half,
    Place,
    file_touch,
    fill_result,
    git_operations,
    join,
    join_lines,
    milliseconds,
    needs_bookkeeping,
    pair,
    split,
)
from ctxdb.rules.chunk import Chunk, Stat, fill_chunk
from ctxdb.rules.derive import derive
from ctxdb.rules.owners import (
    BACKGROUND,
    FOREIGN,
    FORKED,
    WRAPPED,
    FileRank,
    entry_key,
    is_uuid,
    line_key,
    line_rank,
    owner_flags,
    session_rank,
)
from ctxdb.rules.parent_chain import Chain, name_sidechains
from ctxdb.rules.prompt_queue import PromptQueue
from ctxdb.rules.replays import BlockSets, SeenReplays, blocks_of, thread_of
from ctxdb.rules.requests import (
    Teller,
    counts,
    key_of,
    known_by,
    name_request,
    sum_up,
    sum_up_lines,
    teller,
)
from ctxdb.rules.seen import sessions_seen
from ctxdb.settle.owner_order import OwnerOrder

ONE, TWO = "2026-01-01T00:00:01.000Z", "2026-01-01T00:00:02.000Z"
UUID = "0000000a-0000-4000-8000-000000000000"


# -- billed requests -------------------------------------------------------------------------------


def told(entry: str = "m", **more: Any) -> Teller:
    """A line of a request: fields of the line, or of its message."""
    whose = {
        "session_id": "s",
        "agent_id": None,
        "turn_id": 1,
        "timestamp": ONE,
        "entry": entry,
        "is_sidechain": 0,
    }
    for name in whose:
        if name in more:
            whose[name] = more.pop(name)
    return Teller(UsageLine(**{"request_key": "k", "model": entry, **more}), **whose)


WINS = {
    "main thread": (told("z"), told("a", is_sidechain=1, output_tokens=9)),
    "output": (told("z", output_tokens=2), told("a", output_tokens=1, input_tokens=9)),
    "input": (told("z", input_tokens=1), told("a", speed="fast")),
    "5m writes": (told("z", cache_write_5m_tokens=1), told("a", speed="fast")),
    "1h writes": (told("z", cache_write_1h_tokens=1), told("a", speed="fast")),
    "reads": (told("z", cache_read_tokens=1), told("a", speed="fast")),
    "speed": (told("z", speed="fast"), told("a", timestamp=TWO)),
    "later": (told("z", timestamp=TWO), told("a")),
    "later than no time": (told("z"), told("a", timestamp=None)),
    "entry": (told("a"), told("z")),
}


@pytest.mark.parametrize("why", WINS)
def test_r4_which_line_wins(why: str) -> None:
    best, other = WINS[why]
    for tellers in ([best, other], [other, best]):
        assert sum_up(tellers).model == best.line.model


def test_r4_output_counts_in_the_sum_of_counters() -> None:
    """Equal output: then the sum decides, whichever counters it is made of."""
    best = told("z", output_tokens=5, input_tokens=3)
    other = told("a", output_tokens=5, cache_read_tokens=2, timestamp=TWO)
    assert sum_up([other, best]).input_tokens == 3


def test_r4_the_whole_record_of_the_winner_counts() -> None:
    best = told(output_tokens=9, input_tokens=1, speed=None, service_tier="a", prompt_tokens=1)
    other = told("o", input_tokens=7, speed="fast", service_tier="b", prompt_tokens=7)
    found = sum_up([best, other])
    assert (found.output_tokens, found.input_tokens, found.prompt_tokens) == (9, 1, 1)
    assert (found.speed, found.service_tier, found.lines) == (None, "a", 2)


def test_r4_web_searches_r10_cost_and_r11_end_are_the_most_that_any_line_told() -> None:
    best = told(output_tokens=9)
    other = told("o", web_search_requests=2, has_stop_reason=1, cost_reported_usd=0.5)
    more = told("p", cost_reported_usd=0.25)
    found = sum_up([best, other, more])
    assert (found.web_search_requests, found.output_is_final) == (2, 1)
    assert (found.cost_reported_usd, found.lines) == (0.5, 3)
    assert sum_up([best]).cost_reported_usd is None


FIRST = {
    "earliest": (told("z", session_id="t"), told("a", timestamp=TWO)),
    "has a time": (told("z", session_id="t"), told("a", timestamp=None)),
    "not in the background": (told("z", session_id="t"), told("a", is_background=1)),
    "session": (told("z"), told("a", session_id="t")),
    "entry": (told("a", turn_id=7), told("z")),
}


@pytest.mark.parametrize("why", FIRST)
def test_r5_whose_a_request_is(why: str) -> None:
    first, other = FIRST[why]
    for tellers in ([first, other], [other, first]):
        found = sum_up(tellers)
        assert (found.session_id, found.turn_id) == (first.session_id, first.turn_id)
        assert found.timestamp == first.timestamp


def test_r5_the_first_line_says_whose_and_the_winner_how_much() -> None:
    first = told("a", agent_id="x", is_sidechain=1, output_tokens=1)
    best = told("b", timestamp=TWO, session_id="t", turn_id=2, output_tokens=8)
    found = sum_up([first, best])
    assert (found.session_id, found.agent_id, found.turn_id) == ("s", "x", 1)
    assert (found.timestamp, found.output_tokens, found.is_sidechain) == (ONE, 8, 0)


def test_r3_a_sidechain_line_counts_unless_its_session_has_it_outside() -> None:
    side = told(is_sidechain=1)
    assert not counts(side, {"s", "t"})
    assert counts(side, {"t"})
    assert counts(side, ())
    assert counts(told(), {"s"})


def reply(n: int, api: str | None = "msg_1", request: str | None = "r", **more: Any) -> Message:
    """A stored assistant line with one usage line."""
    fields = {"session_id": "s", "uuid": f"u{n}", "timestamp": ONE, "type": "assistant", **more}
    usage = fields.pop("usage", [UsageLine(model="m", output_tokens=n)])
    return Message(id=n, api_message_id=api, request_id=request, usage=usage, is_new=True, **fields)


def named(*messages: Message) -> list[Message]:
    for message in messages:
        name_request(message)
    return list(messages)


def test_r2_what_makes_a_request_one_request() -> None:
    assert request_key("s", "msg_1", "r", ONE) == request_key("t", "msg_1", "r", TWO)
    assert request_key("s", "msg_1", "r", ONE) != request_key("s", "msg_1", "q", ONE)
    assert request_key("s", "msg_1", None, ONE) == request_key("s", "msg_1", None, TWO)
    assert request_key("s", "msg_1", None, ONE) != request_key("t", "msg_1", None, ONE)
    assert request_key("s", "gen", None, ONE) != request_key("s", "gen", None, TWO)
    assert request_key("s", "gen", None, ONE) != request_key("t", "gen", None, ONE)


def test_r2_without_an_api_message_the_line_is_its_own_request() -> None:
    line = UsageLine()
    assert key_of(line, reply(1, None, None, uuid=UUID)) == UUID
    assert key_of(line, reply(1, None, None, uuid="1")) == entry_key("1", "s")
    nameless = [
        reply(1, None, None, uuid=None, file_session="f", line_hash=5, nth=nth) for nth in (0, 1)
    ]
    assert [key_of(line, one) for one in nameless] == [line_key("f", 5, n) for n in (0, 1)]


def test_r17_lines_of_one_request_are_told_apart_without_uuids() -> None:
    lines = [reply(1, uuid=None, line_hash=n, nth=0) for n in (1, 2)]
    lines += [reply(1, uuid="1", session_id=session) for session in ("s", "t")]
    assert len({known_by(one) for one in lines}) == 4
    assert {known_by(one) for one in lines} == {teller(UsageLine(), one).entry for one in lines}


def test_r2_advisor_calls_have_keys_of_their_own() -> None:
    (message,) = named(reply(1, usage=[UsageLine(), UsageLine(part=1), UsageLine(part=2)]))
    keys = [line.request_key for line in message.usage or ()]
    assert keys == ["msg_1|r", "msg_1|r|adv 1", "msg_1|r|adv 2"]


def test_r18_lines_of_one_request_are_summed_up() -> None:
    found = sum_up_lines(named(reply(1), reply(2), reply(3, "msg_2")))
    assert [(r.output_tokens, r.lines) for r in found.requests] == [(2, 2), (3, 1)]
    assert found.unsure == []


def test_r3_an_api_message_under_two_keys_is_left_to_stored_rows() -> None:
    found = sum_up_lines(named(reply(1), reply(2, request="q"), reply(3, "msg_2")))
    assert found.unsure == ["msg_1|q", "msg_1|r"]
    assert [one.api_message_id for one in found.requests] == ["msg_2"]


def test_r3_a_request_in_and_outside_a_sidechain_is_left_to_stored_rows() -> None:
    found = sum_up_lines(named(reply(1), reply(2, is_sidechain=1)))
    assert (found.requests, found.unsure) == ([], ["msg_1|r"])
    found = sum_up_lines(named(reply(1, is_sidechain=1), reply(2, is_sidechain=1)))
    assert (len(found.requests), found.unsure) == (1, [])


def test_r3_a_request_without_an_api_message_is_left_to_stored_rows() -> None:
    assert sum_up_lines(named(reply(1, None, None, uuid=UUID))).unsure == [UUID]


def test_r3_the_advisor_calls_of_a_doubtful_request_are_doubtful() -> None:
    both = [UsageLine(), UsageLine(part=1)]
    found = sum_up_lines(named(reply(1, usage=both), reply(2, is_sidechain=1)))
    assert found.unsure == ["msg_1|r", "msg_1|r|adv 1"]
    assert sum_up_lines(named(reply(1, usage=both))).unsure == []


# -- what one line counts --------------------------------------------------------------------------


def test_r0_counters_are_between_0_and_2_million() -> None:
    values = [-1, 0, 1, 2_000_000, 2_000_001, 1e30, -1e30, 2.5, "7", None, True, 2**80]
    expected = [0, 0, 1, 2_000_000, 2_000_000, 2_000_000, 0, 2, 0, 0, 0, 2_000_000]
    assert [count(value) for value in values[:-1]] == expected[:-1]
    tokens = {"input_tokens": -1, "output_tokens": 2_000_001, "cache_read_input_tokens": 2_000_000}
    assert counters(tokens) == (0, 2_000_000, 0, 0, 2_000_000)


@pytest.mark.parametrize(
    ("message", "is_request"),
    [
        ({"model": "m", "usage": {}}, True),
        ({"model": "m", "usage": []}, False),
        ({"model": "m"}, False),
        ({"model": "", "usage": {}}, False),
        ({"model": "<synthetic>", "usage": {}}, False),
        ({"model": None, "usage": {}}, False),
    ],
)
def test_r0_which_lines_are_of_a_request(message: dict[str, Any], is_request: bool) -> None:
    assert (usage_lines({}, message) is not None) == is_request


@pytest.mark.parametrize(
    ("total", "split", "expected"),
    [
        (30, None, (30, 0)),
        (30, {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 20}, (10, 20)),
        (0, {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 20}, (10, 20)),
        (50, {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 20}, (30, 20)),
        (50, {"ephemeral_1h_input_tokens": 20}, (30, 20)),
        (5, {"ephemeral_1h_input_tokens": 20}, (0, 20)),
    ],
)
def test_r6_cache_writes(total: int, split: Any, expected: tuple[int, int]) -> None:
    found = counters({"cache_creation_input_tokens": total, "cache_creation": split})
    _, _, short, long, _ = found
    assert (short, long) == expected


def test_r7_the_size_of_a_prompt() -> None:
    tokens = {
        "input_tokens": 1,
        "output_tokens": 1000,
        "cache_read_input_tokens": 20,
        "cache_creation": {"ephemeral_5m_input_tokens": 300, "ephemeral_1h_input_tokens": 4000},
    }
    (line,) = usage_lines({}, {"model": "m", "usage": tokens}) or ()
    assert line.prompt_tokens == 4321
    calls = [
        {"type": "message", "input_tokens": 7},
        {"type": "message", "input_tokens": 50},
        {"type": "message", "input_tokens": 8},
        {"type": "advisor_message", "input_tokens": 900},
        {"type": "other", "input_tokens": 900},
    ]
    found = usage_lines({}, {"model": "m", "usage": {**tokens, "iterations": calls}}) or []
    assert [(one.part, one.prompt_tokens) for one in found] == [(0, 50), (1, 900)]


def test_r10_r11_and_the_rest_that_a_line_says_of_its_request() -> None:
    tokens = {"speed": "fast", "server_tool_use": {"web_search_requests": 3}, "service_tier": "t"}
    message = {"model": "m", "usage": tokens, "stop_reason": "end_turn"}
    (line,) = usage_lines({"costUSD": 0.5, "sessionKind": "bg"}, message) or ()
    assert (line.speed, line.web_search_requests, line.service_tier) == ("fast", 3, "t")
    assert (line.has_stop_reason, line.is_background, line.cost_reported_usd) == (1, 1, 0.5)
    (line,) = usage_lines({}, {"model": "m", "usage": {}, "stop_reason": None}) or ()
    assert (line.has_stop_reason, line.is_background, line.cost_reported_usd) == (0, 0, None)


def test_advisor_calls_are_counted_from_1_under_their_own_model() -> None:
    calls = [{"type": "advisor_message", "model": name} for name in ("a", None, "b")]
    message = {"model": "m", "usage": {"iterations": calls}}
    found = usage_lines({"advisorModel": "c"}, message) or []
    assert [(one.part, one.model) for one in found] == [(0, "m"), (1, "a"), (2, "c"), (3, "b")]


# -- owners ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [8, 13, 18, 23])
def test_a_uuid_has_36_characters_and_4_dashes(at: int) -> None:
    assert is_uuid(UUID)
    assert not is_uuid(f"{UUID[:at]}0{UUID[at + 1 :]}")
    assert not is_uuid(UUID + "0")
    assert not is_uuid(UUID[:-1])


def test_an_id_that_is_no_uuid_is_unique_within_its_session_only() -> None:
    assert entry_key(UUID, "s") == entry_key(UUID, "t")
    assert entry_key("1", "s") != entry_key("1", "t")
    assert len({line_key("s", 1, 0), line_key("t", 1, 0), line_key("s", 2, 0)}) == 3


def test_what_counts_against_a_line_as_the_owner() -> None:
    own = {"session_id": "s", "file_session": "s"}
    assert owner_flags(Message(**own)) == 0
    assert owner_flags(Message(session_id="s", file_session="t")) == FOREIGN
    assert owner_flags(Message(**own, line_type="progress")) == WRAPPED
    assert owner_flags(Message(**own, forked_from="u")) == FORKED
    assert owner_flags(Message(**own, forked_session="t")) == FORKED
    assert owner_flags(Message(**own, is_background=True)) == BACKGROUND


def line(flags: int = 0, timestamp: str | None = ONE, block_keys: str | None = "a") -> Message:
    return Message(owner_flags=flags, timestamp=timestamp, block_keys=block_keys)


# From best to worst: each one but the first loses by one reason, though it is better in the next.
BY_LINE = [
    line(0, ONE, "a b"),
    line(0, ONE, "a"),
    line(BACKGROUND, ONE, "a b"),
    line(0, TWO, "a b"),
    line(0, None, "a b"),
    line(FOREIGN),
    line(FORKED),
    line(FORKED | FOREIGN),
    line(WRAPPED),
]


def test_which_line_owns_an_entry() -> None:
    ranks = [line_rank(one) for one in BY_LINE]
    assert sorted(ranks, reverse=True) == ranks[::-1]
    assert len(set(ranks)) == len(ranks)


def test_no_blocks_are_as_few_as_one() -> None:
    assert line_rank(line(block_keys=None)) == line_rank(line(block_keys="a"))


def test_which_session_owns_an_entry() -> None:
    ranks = [
        session_rank("z", None),
        session_rank("y", ONE),
        session_rank("a", TWO),
        session_rank("b", TWO),
    ]
    assert sorted(ranks, reverse=True) == ranks[::-1]
    assert session_rank(None, None) < session_rank("a", None)


def test_the_order_of_owners_is_line_then_session_then_file_then_place() -> None:
    lines = [line_rank(one) for one in (line(), line(FORKED))]
    sessions = [session_rank("s", None), session_rank("s", ONE)]
    files = [FileRank(is_agents=False, path="z"), FileRank(is_agents=True, path="a")]
    for worse in range(5):
        better = OwnerOrder(False, lines[0], sessions[0], files[0], 5)
        values: list[Any] = [False, lines[0], sessions[0], files[0], 5]
        # Whatever comes after it may be better.
        others = [None, None, session_rank("a", None), FileRank(is_agents=False, path="a"), 1]
        values[worse] = [True, lines[1], sessions[1], files[1], 6][worse]
        values[worse + 1 :] = [
            new if new is not None else old
            for old, new in zip(values[worse + 1 :], others[worse + 1 :], strict=True)
        ]
        assert better < OwnerOrder(*values)


# -- replays ---------------------------------------------------------------------------------------


def test_sidechains_inside_a_main_file_are_one_thread() -> None:
    assert thread_of("side-1") == thread_of("side-2")
    assert thread_of("a1") == "a1"
    assert thread_of(None) is None


@pytest.mark.parametrize("many", [2, 6, 7, 9])
def test_a_replay_has_all_blocks_of_its_original_or_the_other_way_round(many: int) -> None:
    whole = [f"b{n}" for n in range(many)]
    sets = BlockSets(" ".join(whole))
    assert sets.is_known(blocks_of(" ".join(whole[1:])))
    assert sets.is_known(blocks_of(" ".join([*whole, "more"])))
    assert sets.is_known(blocks_of(" ".join(whole)))
    assert not sets.is_known(blocks_of(" ".join([*whole[1:], "other"])))
    assert not sets.is_known(blocks_of("other"))


@pytest.mark.parametrize("many", [2, 6, 7])
def test_a_line_with_more_blocks_replays_one_with_a_single_block(many: int) -> None:
    blocks = [f"b{n}" for n in range(many)]
    assert all(BlockSets(one).is_known(blocks_of(" ".join(blocks))) for one in blocks)


def test_lines_of_another_moment_are_no_replays() -> None:
    seen = SeenReplays()
    assert not seen.add(("s", ONE), "a b")
    assert not seen.add(("s", TWO), "a b")
    assert seen.add(("s", ONE), "a")
    assert not seen.add(("s", ONE), "c")
    assert seen.add(("s", ONE), "c")


# -- calls -----------------------------------------------------------------------------------------


def made(id_: str = "toolu_1", message_id: int = 1, **more: Any) -> ToolUse:
    fields = {"name": "Bash", "input": "{}", "session_id": "s", "started_at": ONE, **more}
    return ToolUse(tool_use_id=id_, message_id=message_id, **fields)


def answered(id_: str = "toolu_1", message_id: int = 2, **more: Any) -> ToolUse:
    fields = {"status": "ok", "session_id": "t", "finished_at": TWO, "is_error": 0, **more}
    return ToolUse(tool_use_id=id_, result_message_id=message_id, **fields)


def test_only_anthropics_ids_are_unique() -> None:
    names = ["toolu_1", "srvtoolu_1", "call_0", "0toolu_"]
    assert [is_unique_id(name) for name in names] == [True, True, False, False]


def test_milliseconds_are_the_end_minus_the_start() -> None:
    assert milliseconds(ONE, TWO) == 1000
    assert milliseconds(TWO, ONE) == -1000
    assert [milliseconds(None, ONE), milliseconds(ONE, None), milliseconds("x", ONE)] == [None] * 3


def test_a_row_belongs_where_its_call_does_or_without_one_its_result() -> None:
    assert join("toolu_1", made(), answered()).session_id == "s"
    assert join("toolu_1", None, answered()).session_id == "t"
    whole = join("toolu_1", made(turn_id=1), None)
    fill_result(whole, answered(turn_id=2))
    assert (whole.session_id, whole.turn_id, whole.result_message_id) == ("s", 1, 2)


@pytest.mark.parametrize(
    ("call", "result", "expected"),
    [
        ({}, {}, 0),
        ({}, {"exit_code": 3}, 3),
        ({}, {"exit_code_unknown": 1}, None),
        ({}, {"status": "error"}, None),
        ({"name": "PowerShell"}, {}, None),
        ({"name": "Read"}, {"exit_code": 0}, 0),
    ],
)
def test_the_exit_code_of_a_call(call: Any, result: Any, expected: int | None) -> None:
    assert join("toolu_1", made(**call), answered(**result)).exit_code == expected


def test_a_row_taken_apart_and_joined_again_is_the_same() -> None:
    said = {"exit_code_unknown": 1, "file_path": "p", "tool_ms": 4}
    zero = {"exit_code": 0, "result_text": "Exit code 0\nfine"}
    for result in ({}, {"exit_code": 3}, zero, said, {"status": "error"}):
        whole = join("toolu_1", made(), answered(**result))
        call, answer = split(whole)
        assert call is not None
        assert answer is not None
        assert (call.result_message_id, answer.message_id) == (None, None)
        again = join("toolu_1", call, answer)
        assert (again.exit_code, again.duration_ms) == (whole.exit_code, 1000)
        assert (again.file_path, again.tool_ms) == (whole.file_path, whole.tool_ms)
        assert join("toolu_1", made(name="Read"), answer).exit_code == result.get("exit_code")
    assert split(made())[1] is None
    assert split(answered())[0] is None


def holder(n: int, *, call: str = "", result: str = "") -> Message:
    return Message(
        id=n,
        session_id="s",
        timestamp=ONE,
        calls=[ToolUse(tool_use_id=call, name="Bash")] if call else None,
        results=[ToolUse(tool_use_id=result, status="ok")] if result else None,
        is_new=True,
    )


def joined(*messages: Message) -> list[tuple[int | None, int | None]]:
    whole, halves = join_lines(deepcopy([*messages]))  # it takes joined halves from the messages
    return [(tool.message_id, tool.result_message_id) for tool in (*whole, *halves)]


def test_a_call_and_its_result_are_joined_where_each_is_there_once() -> None:
    call, result = holder(1, call="toolu_1"), holder(2, result="toolu_1")
    assert joined(call, result) == joined(result, call) == [(1, 2)]
    assert joined(call) == [(1, None)]
    assert joined(result) == [(None, 2)]


def test_what_could_be_joined_in_two_ways_stays_in_halves() -> None:
    first, second = holder(1, call="call_0"), holder(2, result="call_0")
    assert joined(first, second) == [(1, None), (None, 2)]
    call, result = holder(1, call="toolu_1"), holder(2, result="toolu_1")
    assert joined(call, holder(3, call="toolu_1"), result) == [(1, None), (3, None), (None, 2)]
    assert joined(call, result, holder(3, result="toolu_1")) == [(1, None), (None, 2), (None, 3)]


def paired(words: str) -> list[str]:
    """Halves in reading order, calls in capitals; as pairs, and results alone."""
    halves = [
        Half(n, n, Place("p", n), made("call_0", n) if word.isupper() else answered("call_0", n))
        for n, word in enumerate(words)
    ]
    found = []
    for order in (halves, halves[::-1]):
        pairs, left = pair(order)
        names = [words[call.row] + words[result.row] for call, result in pairs]
        found.append(sorted(names + [words[result.row] for result in left]))
    assert found[0] == found[1]
    return found[0]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("AaBb", "Aa Bb"),
        ("ABab", "Ab Ba"),
        ("abAB", "Aa Bb"),
        ("abA", "Aa b"),
        ("aABb", "Aa Bb"),
        ("AB", ""),
        ("aAbB", "Ab Ba"),
        ("AabB", "Aa Bb"),
    ],
)
def test_a_result_belongs_to_the_last_open_call_before_it(words: str, expected: str) -> None:
    assert paired(words) == expected.split()


def test_halves_are_read_in_the_order_of_path_and_byte() -> None:
    places = [Place("a", 9), Place("b", 1), Place("b", 2)]
    assert min(permutations(places)) == tuple(places)


def test_a_call_on_the_line_of_a_result_is_not_before_it() -> None:
    here, before = Place("p", 5), Place("p", 1)
    call, result = Half(1, 1, here, made("call_0")), Half(2, 2, here, answered("call_0"))
    first = Half(3, 3, before, made("call_0", 3))
    assert pair([call, result, first]) == ([(first, result)], [])


WRITTEN = ("/p/a.py", "write", 2, 0)
TOUCHED = {
    "pending": ({"status": "pending"}, ("write", None, None, None)),
    "failed": ({"status": "error"}, ("write", 0, 0, 0)),
    "written": ({}, ("write", 1, None, None)),
    "counted": ({"file_lines_added": 5, "file_lines_removed": 1}, ("write", 1, 5, 1)),
    "created": (
        {"file_operation": "create", "file_lines_added": 2, "file_lines_removed": 0},
        ("create", 1, 2, 0),
    ),
}


@pytest.mark.parametrize("how", TOUCHED)
def test_the_file_that_a_call_touches(how: str) -> None:
    result, expected = TOUCHED[how]
    touch = file_touch(join("toolu_1", made(call_file=WRITTEN), answered(**result)))
    assert touch is not None
    assert (touch.operation, touch.succeeded, touch.lines_added, touch.lines_removed) == expected
    assert (touch.path, touch.timestamp) == ("/p/a.py", ONE)


def test_an_edit_has_the_lines_of_its_patch_or_else_of_its_strings() -> None:
    edit = made(call_file=("/p/a.py", "edit", 2, 1))
    touch = file_touch(join("toolu_1", edit, answered()))
    assert touch is not None
    assert (touch.lines_added, touch.lines_removed) == (2, 1)
    read = file_touch(join("toolu_1", made(call_file=("/p/a", "read", 2, 1)), answered()))
    assert read is not None
    assert (read.lines_added, read.lines_removed) == (None, None)
    assert file_touch(join("toolu_1", made(call_file=()), answered(file_path="p"))) is None
    unnamed = join("toolu_1", made(call_file=("", "edit", 1, 1)), answered(file_path="/p/b"))
    assert (file_touch(unnamed) or unnamed).path == "/p/b"  # type: ignore[union-attr]


def test_git_is_what_the_result_reports_and_the_commits_a_shell_printed() -> None:
    printed = {"result_text": "[main 1a2b3c4] x\n 1 file changed"}
    commit = {"input": '{"command": "git commit -m x"}'}
    shell = join("toolu_1", made(**commit), answered(**printed))
    (found,) = git_operations(shell, None)
    assert (found.kind, found.sha, found.timestamp) == ("commit", "1a2b3c4", TWO)
    reported: list[GitOp] = [("push", None, "main", None, None, None, "result")]
    assert [one.kind for one in git_operations(shell, reported)] == ["push", "commit"]
    other = join("toolu_1", made(name="Read", **commit), answered(**printed))
    assert git_operations(other, None) == []


def test_bookkeeping_is_kept_where_a_result_says_more_than_is_public() -> None:
    assert not needs_bookkeeping(ToolUse())
    for name, value in {
        "exit_code_unknown": 1,
        "file_path": "p",
        "file_operation": "create",
        "file_lines_added": 0,
    }.items():
        assert needs_bookkeeping(ToolUse(**{name: value}))


# -- the queue of prompts --------------------------------------------------------------------------


def run_queue(*steps: tuple[str, str | None]) -> list[str | None]:
    """The prompt of the turn that each step begins; a step without operation is an attachment."""
    queue = PromptQueue()
    begun = []
    for n, (name, text) in enumerate(steps):
        turn = queue.operation(name, text, str(n)) if name else queue.attachment(text or "")
        begun.append(None if turn is None else turn[1])
    return begun


def test_a_queued_prompt_begins_its_turn_where_it_is_removed() -> None:
    assert run_queue(("enqueue", "a"), ("remove", "a")) == [None, "a"]
    assert run_queue(("remove", "a")) == ["a"]
    assert run_queue(("enqueue", "a"), ("remove", None), ("remove", None)) == [None, "a", None]


def test_a_remove_without_words_takes_the_oldest() -> None:
    steps = [("enqueue", "a"), ("enqueue", "b"), ("remove", None), ("remove", None)]
    assert run_queue(*steps) == [None, None, "a", "b"]


def test_a_remove_with_words_leaves_the_others_waiting() -> None:
    steps = [("enqueue", "a"), ("enqueue", "b"), ("remove", "b"), ("remove", None)]
    assert run_queue(*steps) == [None, None, "b", "a"]


def test_a_dequeue_begins_no_turn_and_takes_the_oldest_or_what_it_names() -> None:
    both = [("enqueue", "a"), ("enqueue", "b")]
    assert run_queue(*both, ("dequeue", None), ("remove", None)) == [None, None, None, "b"]
    assert run_queue(*both, ("dequeue", "b"), ("remove", None)) == [None, None, None, "a"]
    assert run_queue(*both, ("dequeue", "c"), ("remove", None)) == [None, None, None, "a"]


def test_a_pop_all_drops_what_it_names_or_everything() -> None:
    both = [("enqueue", "a"), ("enqueue", "b")]
    assert run_queue(*both, ("popAll", None), ("remove", None))[3] is None
    assert run_queue(*both, ("popAll", "a\nb"), ("remove", None))[3] is None
    assert run_queue(*both, ("popAll", "a"), ("remove", None))[3] == "b"


def test_an_attachment_and_its_remove_begin_one_turn() -> None:
    assert run_queue(("remove", "a"), ("", "a"), ("", "a")) == ["a", None, "a"]
    assert run_queue(("", "a"), ("remove", "a"), ("remove", "a")) == ["a", None, "a"]
    assert run_queue(("remove", "look"), ("", "look\n\n[image]")) == ["look", None]


def test_an_operation_written_twice_counts_once_only_where_it_has_words() -> None:
    queue = PromptQueue()
    assert queue.operation("remove", "a", ONE) is not None
    assert queue.operation("remove", "a", ONE) is None
    assert queue.operation("remove", "a", TWO) is not None
    for text in ("b", "c"):
        queue.operation("enqueue", text, ONE)
    begun = [queue.operation("remove", None, ONE) for _ in "bc"]
    assert begun == [("queued", "b"), ("queued", "c")]


# -- sessions --------------------------------------------------------------------------------------


def test_what_lines_say_of_a_session() -> None:
    def said(n: int, at: str | None = ONE, **more: Any) -> Message:
        fields = {"session_id": "s", "byte_start": n, "type": "user", "is_new": True, **more}
        return Message(id=n, timestamp=at, **fields)

    messages = [
        said(1, TWO, slug="one", cwd="/a", version="1", process_session="p", git_branch="x"),
        said(2, ONE, slug="two", cwd="/b", version="2", process_session="q", git_branch="y"),
        said(3, None, agent_id="a1", cwd="/c", process_session="r"),
        said(4, "2026-01-01T00:00:03.000Z", type="assistant", agent_id="a1", cwd="/d"),
        said(5, "2025-01-01T00:00:00.000Z", is_new=False, version="9", forked_session="f"),
        said(6, session_id=None),
    ]
    (row,) = sessions_seen(messages)
    assert (row.slug, row.version, row.git_branch, row.main_lines) == ("two", "2", "y", 1)
    assert (row.first_cwd, row.agent_cwd, row.process_session) == ("/a", "/c", "p")
    assert (row.first_at, row.last_at) == (ONE, "2026-01-01T00:00:03.000Z")
    assert (row.first_user_at, row.last_user_at, row.forked_session) == (1, 5, "f")


# -- parents ---------------------------------------------------------------------------------------


def test_lines_that_are_no_messages_are_stepped_over() -> None:
    chain = Chain([("b", "a"), ("c", "b"), ("end", None), ("loop", "loop"), ("x", "y"), ("y", "x")])
    assert [chain.ancestor(uuid) for uuid in ("c", "b", "a", None)] == ["a", "a", "a", None]
    assert chain.ancestor("end") is None
    assert chain.ancestor("loop") == "loop"
    assert chain.ancestor("x") in ("x", "y")


def side(uuid: str | None, parent: str | None = None, **more: Any) -> Message:
    return Message(**{"uuid": uuid, "parent_uuid": parent, "is_sidechain": 1, **more})


def test_a_sidechain_has_the_name_of_its_root() -> None:
    lines = [
        side("a", text="go"),
        side("b", "a"),
        side("c", "main", is_sidechain=0),
        side("d", "b"),
    ]
    assert name_sidechains(lines, lambda _: None) == []
    assert [one.agent_id for one in lines] == ["side-a", "side-a", None, "side-a"]
    (fact,) = lines[0].facts or ()
    assert isinstance(fact, AgentFact)
    assert (fact.agent_id, fact.source, fact.prompt) == ("side-a", "root", "go")
    assert lines[1].facts is None


def test_a_sidechain_below_the_main_thread_or_without_uuid_is_a_root() -> None:
    lines = [side("m", is_sidechain=0), side("a", "m"), side(None, line_hash=7)]
    name_sidechains(lines, lambda _: None)
    assert [one.agent_id for one in lines] == [None, "side-a", "side-7"]


def test_a_sidechain_whose_root_is_elsewhere_is_asked_for() -> None:
    lines = [side("b", "far"), side("c", "gone")]

    def agent_of(uuid: str) -> str | None:
        if uuid == "gone":
            raise LookupError(uuid)
        return "side-far"

    assert name_sidechains(lines, agent_of) == [lines[1]]
    assert [one.agent_id for one in lines] == ["side-far", None]


# -- lines of agents ---------------------------------------------------------------------------


def wrapped(**data: Any) -> Message | Event | Skip:
    inner = {"type": "user", "uuid": "u", "message": {"role": "user", "content": "hi"}}
    data = {"type": "agent_progress", "agentId": "a1", "message": inner, **data}
    entry = {"type": "progress", "uuid": "w", "parentUuid": "p", "data": data}
    return read_entry(entry, 0, 1, b"", False)


def test_r14_a_wrapped_line_is_an_agents_and_a_sidechain_whatever_the_wrapper_says() -> None:
    found = wrapped()
    assert isinstance(found, Message)
    assert (found.agent_id, found.is_sidechain, found.uuid) == ("a1", 1, "u")
    assert (found.is_wrapped, found.wrapper) == (True, ("w", "p"))


@pytest.mark.parametrize(
    "data", [{"type": "bash_progress"}, {"message": None}, {"message": {"type": "other"}}]
)
def test_r14_other_progress_lines_are_skipped(data: dict[str, Any]) -> None:
    assert isinstance(wrapped(**data), Skip)


@pytest.mark.parametrize(
    ("more", "in_agent_file", "is_sidechain"),
    [
        ({}, False, 0),
        ({}, True, 1),
        ({"agentId": "a"}, False, 1),
        ({"isSidechain": True}, False, 1),
    ],
)
def test_which_lines_are_sidechains(more: Any, in_agent_file: bool, is_sidechain: int) -> None:
    entry = {"type": "user", "uuid": "u", "message": {"role": "user", "content": "hi"}, **more}
    found = read_entry(entry, 0, 1, b"", in_agent_file)
    assert isinstance(found, Message)
    assert found.is_sidechain == is_sidechain


@pytest.mark.parametrize(
    ("kind", "prompt", "source", "queued", "expected"),
    [
        ("shell", "/ls", None, True, "shell"),
        ("command", "/x", None, True, "command"),
        ("human", "/x", None, True, "command"),
        ("human", "/x", None, False, "prompt"),
        ("human", "x", "sdk", True, "queued"),
        ("human", "x", "sdk", False, "sdk"),
        ("human", "x", None, False, "prompt"),
    ],
)
def test_the_kind_of_a_turn(
    kind: str, prompt: str, source: str | None, queued: bool, expected: str
) -> None:
    assert turn_kind(kind, prompt, source, queued=queued) == expected


# -- chunks ----------------------------------------------------------------------------------------


def chunk_of(
    *records: Message | Event | Skip, session: str | None = None, agent: str | None = None
) -> Chunk:
    chunk = Chunk(0, 1, len(records), Stat(0, 0, 0, 0, 0), b"", at_end=True)
    fill_chunk(chunk, records, session, agent)
    return chunk


def test_a_line_is_of_its_own_session_or_else_of_its_files() -> None:
    records = [Message(uuid="a"), Message(uuid="b", said_session="t"), Message(said_session="u")]
    found = chunk_of(*records)
    assert [one.session_id for one in found.messages] == ["t", "t", "u"]
    assert [one.file_session for one in found.messages] == ["t"] * 3
    records = [Message(uuid="a"), Message(uuid="b", said_session="t")]
    found = chunk_of(*records, session="s")
    assert [one.session_id for one in found.messages] == ["s", "t"]


def test_lines_of_an_agents_file_are_the_agents_unless_they_say_otherwise() -> None:
    records = [Message(uuid="a"), Message(uuid="b", agent_id="x")]
    found = chunk_of(*records, Message(uuid="c", line_type="progress"), agent="f")
    assert [one.agent_id for one in found.messages] == ["f", "x", None]


def test_parents_are_found_through_skipped_lines_events_and_wrappers() -> None:
    found = chunk_of(
        Message(uuid="a"),
        Skip("progress", "", "why", "b", "a"),
        Event(uuid="c", said_parent="b"),
        Message(uuid="d", said_parent="c", wrapper=("w", "c")),
        Message(uuid="e", said_parent="w"),
    )
    assert [one.parent_uuid for one in found.messages] == [None, "a", "a"]
    assert dict(found.skipped) == {"b": "a", "c": "b", "w": "c"}


def test_a_uuid_that_a_message_has_is_not_stepped_over() -> None:
    found = chunk_of(
        Event(uuid="b", said_parent="a"), Message(uuid="b"), Message(uuid="c", said_parent="b")
    )
    assert found.messages[1].parent_uuid == "b"


def test_of_several_parents_of_one_skipped_uuid_the_smallest_counts() -> None:
    for parents in permutations((None, "a", "b")):
        steps = [Event(uuid="x", said_parent=parent) for parent in parents]
        found = chunk_of(*steps, Message(uuid="c", said_parent="x"))
        assert (found.messages[0].parent_uuid, found.skipped) == ("a", [("x", "a")])


def test_a_chunk_needs_stored_rows_for_lines_without_uuid_and_roots_elsewhere() -> None:
    assert not chunk_of(Message(uuid="a")).needs_stored_rows
    assert chunk_of(Message(uuid=None)).needs_stored_rows
    assert chunk_of(side("a", None, said_parent="far")).needs_stored_rows
    assert not chunk_of(side("a"), side("b", said_parent="a")).needs_stored_rows


def test_only_new_lines_count_in_what_a_chunk_derives() -> None:
    messages = [reply(1, version="2", line_type="assistant"), reply(2, "msg_2")]
    messages[1].is_new = False
    found = derive(messages)
    assert [one.api_message_id for one in found.requests] == ["msg_1"]
    assert dict(found.counts) == {("assistant", "2", "stored", ""): 1}


def test_calls_whose_id_is_stored_are_taken_apart_again() -> None:
    messages = [holder(1, call="toolu_1"), holder(2, result="toolu_1")]
    found = derive(messages)
    assert (len(found.tools), found.halves) == (1, [])
    found.take_apart({"toolu_2"}, messages)
    assert len(found.tools) == 1
    found.take_apart({"toolu_1"}, messages)
    assert found.tools == []
    assert [(h.message_id, h.result_message_id) for h in found.halves] == [(1, None), (None, 2)]
