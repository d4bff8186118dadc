"""Known kinds of secrets are masked; texts that only look like them are not."""

from __future__ import annotations

import re

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxdb.privacy.json_bytes import mask_json
from ctxdb.privacy.masking import MASKED, Masker
from ctxdb.privacy.secret_rules import RULES, Rule

MASKER = Masker()
by_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)


def test_there_are_at_least_forty_rules_with_names_of_their_own() -> None:
    names = [rule.name for rule in RULES]
    assert len(names) == len(set(names)) >= 40


@by_rule
def test_a_rule_masks_its_own_example_and_leaves_the_counter_example(rule: Rule) -> None:
    masked = MASKER.mask(f"before {rule.example} after")
    assert f"[redacted:{rule.name}]" in masked
    assert masked.startswith("before ")
    assert masked.endswith(" after")
    secret = re.search(rule.pattern, rule.example)
    assert secret is not None
    hidden = next((g for g in secret.groups() if g), secret[0])
    assert hidden not in masked
    assert MASKER.mask(rule.counter_example) == rule.counter_example


@by_rule
def test_a_keyword_of_the_rule_is_in_its_example_as_bytes(rule: Rule) -> None:
    assert MASKER.may_hold_secret(orjson.dumps({"text": rule.example}))


@by_rule
def test_an_example_inside_json_inside_json_is_masked(rule: Rule) -> None:
    inner = orjson.dumps({"key": rule.example}).decode()
    assert f"[redacted:{rule.name}]" in MASKER.mask(inner)


@by_rule
def test_masking_twice_changes_nothing_more(rule: Rule) -> None:
    once = MASKER.mask(rule.example)
    assert MASKER.mask(once) == once


def test_a_private_key_behind_line_numbers_is_masked() -> None:
    body = "\n".join(f"     {n}→{'Ab1' * 20}" for n in range(2, 9))
    text = f"     1→-----BEGIN OPENSSH PRIVATE KEY-----\n{body}\n     9→and then text"
    masked = MASKER.mask(text)
    assert "Ab1Ab1" not in masked
    assert masked.endswith("and then text")


def test_a_private_key_with_escaped_newlines_is_masked() -> None:
    text = r"-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQ\nAbCdEfGhIjKlMnOpQr\n"
    assert "MIIEvQ" not in MASKER.mask(text)


def test_only_the_password_of_a_url_is_masked() -> None:
    masked = MASKER.mask("see postgresql://tide:m00nlight@db.example/tides now")
    assert masked == "see postgresql://tide:[redacted:url-password]@db.example/tides now"


@pytest.mark.parametrize(
    "text",
    [
        "https://example.com:8080/path@version",
        "git@github.com:owner/name.git",
        "http://localhost:3000/@fs/src",
        "npm_config_cache and ghp_ are words",
        "https://user@example.com/x",
        "export TOKEN=$GITHUB_TOKEN",
        "Authorization: Bearer $TOKEN",
        "redis://:${REDIS_PASSWORD}@cache:6379",
        "postgres://user:***@host/db",
    ],
)
def test_texts_that_hold_no_secret_stay_as_they_are(text: str) -> None:
    assert MASKER.mask(text) == text


def test_every_text_of_a_line_is_masked_keys_too() -> None:
    rule = RULES[0]
    value = {rule.example: [{"a": rule.example}, 1, None, True], "b": {"c": [rule.example]}}
    masked = mask_json(orjson.dumps(value).decode(), MASKER)
    mark = f"[redacted:{rule.name}]"
    assert orjson.loads(masked) == {mark: [{"a": mark}, 1, None, True], "b": {"c": [mark]}}


@given(st.text(), st.sampled_from(RULES), st.text())
def test_a_secret_between_any_texts_is_masked(before: str, rule: Rule, after: str) -> None:
    text = f"{before}\n{rule.example}\n{after}"
    masked = MASKER.mask(text)
    assert rule.example not in masked
    assert MASKED.search(masked)


@given(st.text())
def test_what_is_not_masked_is_left_to_the_letter(text: str) -> None:
    masked = MASKER.mask(text)
    assert masked == text or MASKED.search(masked)


def test_a_rule_that_is_off_masks_nothing() -> None:
    masker = Masker(rule for rule in RULES if rule.name != "github-token")
    example = next(rule.example for rule in RULES if rule.name == "github-token")
    assert masker.mask(example) == example
