"""What file names say."""

import pytest

import catalogd


@pytest.mark.parametrize(
    ("path", "name", "version"),
    [
        ("/games/Celeste [0100AAAABBBB0000][v65536].nsp", "Celeste", "65536"),
        ("/games/Celeste.nsp", "Celeste", ""),
        ("/games/[0100AAAABBBB0000].nsp", "[0100AAAABBBB0000]", ""),
        ("/games/No tags (2021).xci", "No tags (2021)", ""),
        ("/games/Two  [DLC]  words[V0].nsz", "Two words", "0"),
    ],
)
def test_a_file_name_gives_name_and_version(path: str, name: str, version: str) -> None:
    says = catalogd.name_says(path)
    assert (says["name"], says["version"]) == (name, version)
