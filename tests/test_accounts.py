"""Passwords, keys and the wait after wrong passwords."""

import unicodedata

import pytest

import catalogd
from conftest import Clock


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
