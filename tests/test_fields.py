"""The check of JSON bodies."""

import json
import unicodedata
from typing import Any

import pytest

import catalogd
from conftest import Clock


def progress(**fields: Any) -> bytes:
    return json.dumps({"queue_item_id": "a", **fields}).encode()


NESTED: Any = {}
for _ in range(400):
    NESTED = {"a": NESTED}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("progress_percent", 0),
        ("progress_percent", 100),
        ("progress_percent", 99.5),
        ("bytes_transferred", 0),
        ("bytes_transferred", 2**63 - 1),
        ("transfer_speed", 1234567.25),
        ("status", "processing"),
        ("status", "completed"),
        ("status", "failed"),
        ("error_message", ""),
        ("error_message", "é" * 500),
        ("error_code", "disk_full"),
        ("error_arguments", {}),
        ("error_arguments", {"name": "\0é", "count": 3, "size": 1.5}),
        ("error_arguments", {"why": {"code": "a", "arguments": {"b": "c"}}}),
        ("error_arguments", {"a": "x" * 1991}),
        ("bytes_kept", 0),
    ],
)
def test_a_good_value_is_returned_as_it_is(field: str, value: Any) -> None:
    found = catalogd.parse(catalogd.PROGRESS, progress(**{field: value}))
    assert found == {"queue_item_id": "a", field: value}


@pytest.mark.parametrize("text", [b"481210.0", b"4.8121e5", b"481210"])
def test_a_whole_number_may_be_written_with_a_fraction(text: bytes) -> None:
    body = b'{"queue_item_id": "a", "bytes_transferred": %b}' % text
    found = catalogd.parse(catalogd.PROGRESS, body)
    assert found["bytes_transferred"] == 481210
    assert type(found["bytes_transferred"]) is int


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("queue_item_id", 7, "must be a string"),
        ("queue_item_id", True, "must be a string"),
        ("queue_item_id", [], "must be a string"),
        ("queue_item_id", "\0", "has a character that is not text"),
        ("queue_item_id", "", "is empty"),
        ("queue_item_id", None, "is missing"),
        ("progress_percent", -1, "must be from 0 to 100"),
        ("progress_percent", 100.01, "must be from 0 to 100"),
        ("progress_percent", "50", "must be a number"),
        ("progress_percent", True, "must be a number"),
        ("progress_percent", [50], "must be a number"),
        ("bytes_transferred", -1, "must be from 0 to 9223372036854775807"),
        ("bytes_transferred", 2**63, "must be from 0 to 9223372036854775807"),
        ("bytes_transferred", 2.0**63, "must be from 0 to 9223372036854775807"),
        ("bytes_transferred", -1.0, "must be from 0 to 9223372036854775807"),
        ("bytes_transferred", 1.5, "must be a whole number"),
        ("bytes_transferred", False, "must be a whole number"),
        ("transfer_speed", 2.0**63, "must be from 0 to 9223372036854775807"),
        ("transfer_speed", {}, "must be a number"),
        ("status", "done", "must be one of processing, completed, failed"),
        ("status", "pending", "must be one of processing, completed, failed"),
        ("status", 1, "must be a string"),
        ("queue_item_id", "e" * 101, "is longer than 100 characters"),
        ("error_arguments", NESTED, "must be an object of texts and numbers"),
        ("client", "a" + "\u0301" * 9, "has a character that is not text"),
        ("error_message", "a\0b", "has a character that is not text"),
        ("error_message", "a\ud800", "has a character that is not text"),
        ("error_code", "x" * 101, "is longer than 100 characters"),
        ("error_arguments", {"a": "x" * 1992}, "is longer than 2000 characters"),
        ("error_arguments", {"a": "é" * 999}, "is longer than 2000 characters"),
        ("error_arguments", {"a": "\ud800"}, "has a character that is not text"),
        ("error_arguments", "text", "must be an object of texts and numbers"),
        ("error_arguments", [], "must be an object of texts and numbers"),
        ("bytes_kept", -1, "must be from 0 to 9223372036854775807"),
        ("release", 1, "must be a boolean"),
    ],
)
def test_a_bad_value_is_named_with_its_field(
    field: str, value: Any, reason: str
) -> None:
    with pytest.raises(catalogd.Problem) as error:
        catalogd.parse(catalogd.PROGRESS, progress(**{field: value}))
    assert str(error.value) == f"The field {field} {reason}."
    assert (error.value.status, error.value.headers) == (400, {})


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"entries": "a"}, "The field entries must be a list."),
        ({"entries": ["a", 1]}, "The field entries must be a string."),
        ({"base_id": "0100"}, "The field base_id must have 16 hexadecimal digits."),
    ],
)
def test_lists_and_hexadecimal_numbers_are_checked(
    value: dict[str, Any], reason: str
) -> None:
    fields = {**catalogd.SEND_MANY, **catalogd.ENTRY_CHANGES}
    with pytest.raises(catalogd.Problem) as error:
        catalogd.parse(
            {name: fields[name] for name in value}, json.dumps(value).encode()
        )
    assert str(error.value) == reason


def test_no_value_of_a_list_is_there_twice() -> None:
    twice = ["a", "b", "a"]
    with pytest.raises(catalogd.Problem, match="items has one value twice"):
        catalogd.check_all(catalogd.CLEAR, {"items": twice, "before": "2000"})
    with pytest.raises(catalogd.Problem, match="entries has one value twice"):
        catalogd.check_all(catalogd.SEND_MANY, {"entries": twice})


@pytest.mark.parametrize("body", [b"NaN", b"Infinity", b"-Infinity", b"1e999"])
def test_a_number_that_is_not_finite_is_refused(body: bytes) -> None:
    with pytest.raises(catalogd.Problem):
        catalogd.parse(
            catalogd.PROGRESS,
            b'{"queue_item_id": "a", "transfer_speed": %b}' % body,
        )


def test_unknown_and_null_fields_are_left_out() -> None:
    body = progress(status=None, eta=5, nested={"a": [1]})
    assert catalogd.parse(catalogd.PROGRESS, body) == {"queue_item_id": "a"}


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{", b"\xff", b'{"a": 1}x', b"{'a': 1}", b"[" * 100_000),
        *(b"\xef\xbb\xbf{}", "{}".encode("utf-16"), b'{"a": "\xed\xa0\x80"}', b"\0"),
        *(b'{"a": "a\nb"}', b'{"a":' * 13_000, b"1" * 60_000),
        b'{"a": %b}' % (b"9" * 60_000),
    ],
    ids=range(14),
)
def test_text_that_is_not_json_is_refused(body: bytes) -> None:
    with pytest.raises(catalogd.Problem, match=r"^The body is not valid JSON\.$"):
        catalogd.parse(catalogd.SEND, body)


@pytest.mark.parametrize("body", [b"[]", b"null", b'"entry_id"', b"1", b"true"])
def test_json_that_is_not_an_object_is_refused(body: bytes) -> None:
    with pytest.raises(catalogd.Problem, match=r"^The body is not a JSON object\.$"):
        catalogd.parse(catalogd.SEND, body)


def test_an_update_must_have_a_status() -> None:
    with pytest.raises(catalogd.Problem, match="field status is missing"):
        catalogd.parse(catalogd.UPDATE, progress())


@pytest.mark.parametrize(
    ("problem", "headers"),
    [
        (catalogd.BadKey(""), {"WWW-Authenticate": 'Bearer realm="catalogd"'}),
        (catalogd.NoSuchRange(7), {"Content-Range": "bytes */7"}),
        (catalogd.TooManyTries(1.2), {"Retry-After": "2"}),
        (catalogd.NotFound(""), {}),
    ],
)
def test_a_problem_has_the_headers_that_its_status_needs(
    problem: catalogd.Problem, headers: dict[str, str]
) -> None:
    assert problem.headers == headers


# Accounts: passwords, keys and the wait after wrong passwords


def test_a_hash_contains_its_cost_and_its_own_salt() -> None:
    one, two = (catalogd.hash_password("correct horse") for _ in range(2))
    assert one.startswith("scrypt$16$1$1$")
    assert one != two


def test_only_the_right_password_matches() -> None:
    stored = catalogd.hash_password("correct horse")
    assert catalogd.password_matches("correct horse", stored)
    assert not catalogd.password_matches("correct horsf", stored)


def test_a_password_matches_at_the_cost_that_it_was_hashed_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stored = catalogd.hash_password("correct horse")
    monkeypatch.setattr(catalogd, "SCRYPT", {"n": 4, "r": 2, "p": 3})
    assert catalogd.password_matches("correct horse", stored)


def test_a_password_matches_in_any_unicode_composition() -> None:
    stored = catalogd.hash_password("pässwörter")
    assert catalogd.password_matches(unicodedata.normalize("NFD", "pässwörter"), stored)


def test_without_an_account_no_password_matches_and_the_cost_is_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    costs = []
    real = catalogd.hashlib.scrypt

    def scrypt(password: bytes, **cost: int) -> bytes:
        costs.append({name: cost[name] for name in "nrp"})
        return real(password, **cost)

    monkeypatch.setattr(catalogd.hashlib, "scrypt", scrypt)
    assert not catalogd.password_matches("correct horse", None)
    assert costs == [catalogd.SCRYPT]


def test_a_password_of_eight_characters_is_long_enough() -> None:
    assert catalogd.check_password("é2345678") == "é2345678"


@pytest.mark.parametrize(
    "password",
    [
        *("", "1234567", "correct horse\udcff", "password", "PassWord1", "12345678"),
        *(" " * 8, "11111111", "qwertyuiop", "maximilian"),
    ],
)
def test_a_password_that_is_short_or_not_text_is_refused(password: str) -> None:
    with pytest.raises(catalogd.Problem, match="password"):
        catalogd.check_password(password, "Maximilian")


@pytest.mark.parametrize(
    ("typed", "name"),
    [("анна", "анна"), (" anna ", "anna"), ("A" * 64, "A" * 64), ("e\u0301", "é")],
)
def test_an_account_name_is_normalized(typed: str, name: str) -> None:
    assert catalogd.check_account_name(typed) == name


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "1 to 64"),
        ("  ", "1 to 64"),
        ("a" * 65, "1 to 64"),
        ("a\nb", "printable"),
        ("a\u202eb", "printable"),
        ("a\udcff", "printable"),
        ("a:b", "without ':'"),
        ("Scanner", "reserved"),
        ("\u0430nna", "mix"),
        ("ann\u03b1", "mix"),
    ],
)
def test_an_account_name_that_is_not_allowed_is_refused(name: str, reason: str) -> None:
    with pytest.raises(catalogd.Problem, match=reason):
        catalogd.check_account_name(name)


def test_a_key_has_a_prefix_and_256_random_bits() -> None:
    one, two = catalogd.new_key(), catalogd.new_key()
    assert one.startswith("catalogd_") and len(one) == len("catalogd_") + 43
    assert one != two


def test_any_text_has_a_digest() -> None:
    assert len({catalogd.hash_token(text) for text in ("", "a", "\udcff")}) == 3


@pytest.fixture
def throttle(clock: Clock) -> catalogd.Throttle:
    return catalogd.Throttle(clock)


def wait(throttle: catalogd.Throttle, subject: str) -> float:
    """Return the seconds that the subject has to wait."""
    try:
        throttle.check(subject)
    except catalogd.TooManyTries as problem:
        return float(problem.headers["Retry-After"])
    return 0


def test_the_first_wrong_passwords_are_free_and_then_the_wait_doubles(
    throttle: catalogd.Throttle,
) -> None:
    waits = []
    for _ in range(8):
        waits.append(wait(throttle, "anna"))
        throttle.record(False, "anna")
    assert waits == [0, 0, 0, 0, 0, 1, 2, 4]


def test_the_wait_has_a_maximum(throttle: catalogd.Throttle, clock: Clock) -> None:
    for _ in range(200):
        throttle.record(False, "anna")
    assert wait(throttle, "anna") == 300
    clock.now += 300
    assert wait(throttle, "anna") == 0


def test_a_right_password_ends_the_wait(throttle: catalogd.Throttle) -> None:
    for _ in range(6):
        throttle.record(False, "anna")
    throttle.record(True, "anna")
    assert wait(throttle, "anna") == 0
    assert throttle.wrong == {}


def test_a_subject_is_forgotten_after_an_hour(
    throttle: catalogd.Throttle, clock: Clock
) -> None:
    throttle.record(False, "anna")
    clock.now += 3601
    throttle.record(False, "ben")
    assert list(throttle.wrong) == ["ben"]


@pytest.mark.parametrize(
    ("address", "subject"),
    [
        ("192.168.1.7", "192.168.1.7"),
        ("8.8.8.8", "8.8.8.8"),
        ("2600:1::1", "2600:1::/64"),
        ("2600:1:0:0:ffff::1", "2600:1::/64"),
        ("2600:1:0:1::1", "2600:1:0:1::/64"),
        ("fe80::1", "fe80::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("fd00::1", "fd00::/64"),
        ("::ffff:192.168.1.7", "192.168.1.7"),
        ("::1", "::1"),
        ("unknown", "unknown"),
    ],
)
def test_a_network_of_ipv6_counts_as_one_address(address: str, subject: str) -> None:
    assert catalogd.address_subject(address) == subject
