"""Passwords, keys and the wait after wrong passwords."""

import unicodedata

import pytest

import catalogd
from conftest import Clock


def test_a_hash_says_its_cost_and_has_a_salt_of_its_own() -> None:
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


def test_a_password_matches_however_its_letters_are_composed() -> None:
    stored = catalogd.hash_password("pässwörter")
    assert catalogd.password_matches(unicodedata.normalize("NFD", "pässwörter"), stored)


def test_without_an_account_no_password_matches_and_as_much_is_hashed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    catalogd.nobodys_password()
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


@pytest.mark.parametrize("password", ["", "1234567", "12345678\udcff"])
def test_a_short_password_or_one_that_is_no_text_is_refused(password: str) -> None:
    with pytest.raises(catalogd.Problem, match="password"):
        catalogd.check_password(password)


@pytest.mark.parametrize(
    ("typed", "name"),
    [("anna", "anna"), (" anna ", "anna"), ("A" * 64, "A" * 64), ("e\u0301", "é")],
)
def test_an_account_name_is_made_normal(typed: str, name: str) -> None:
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
    ],
)
def test_what_cannot_be_an_account_name_is_refused(name: str, reason: str) -> None:
    with pytest.raises(catalogd.Problem, match=reason):
        catalogd.check_account_name(name)


def test_a_key_tells_what_it_is_and_has_256_random_bits() -> None:
    one, two = catalogd.new_key(), catalogd.new_key()
    assert one.startswith("catalogd_") and len(one) == len("catalogd_") + 43
    assert one != two


def test_any_text_has_a_digest() -> None:
    assert len({catalogd.hash_token(text) for text in ("", "a", "\udcff")}) == 3


@pytest.fixture
def throttle(clock: Clock) -> catalogd.Throttle:
    return catalogd.Throttle(clock)


def wait(throttle: catalogd.Throttle, *subjects: str) -> float:
    """Seconds that they have to wait."""
    try:
        throttle.check(*subjects)
    except catalogd.TooManyTries as problem:
        assert problem.headers == {"Retry-After": str(problem.wait)}
        return problem.wait
    return 0


def test_some_wrong_passwords_are_free_and_then_the_wait_doubles(
    throttle: catalogd.Throttle,
) -> None:
    waits = []
    for _ in range(8):
        waits.append(wait(throttle, "anna"))
        throttle.note(False, "anna")
    assert waits == [0, 0, 0, 0, 0, 1, 2, 4]


def test_the_wait_has_an_end(throttle: catalogd.Throttle, clock: Clock) -> None:
    for _ in range(200):
        throttle.note(False, "anna")
    assert wait(throttle, "anna") == 300
    clock.now += 300
    assert wait(throttle, "anna") == 0


def test_the_longest_wait_of_several_counts(throttle: catalogd.Throttle) -> None:
    for _ in range(7):
        throttle.note(False, "anna")
    assert wait(throttle, "from here", "anna") == 4
    assert wait(throttle, "from here") == 0


def test_a_right_password_ends_the_wait(throttle: catalogd.Throttle) -> None:
    for _ in range(6):
        throttle.note(False, "anna")
    throttle.note(True, "anna")
    assert wait(throttle, "anna") == 0
    assert throttle.wrong == {}


def test_what_was_quiet_longest_is_forgotten_first(
    throttle: catalogd.Throttle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttle, "most", 2)
    for subject in ("a", "b", "a", "c"):
        throttle.note(False, subject)
    assert list(throttle.wrong) == ["a", "c"]
