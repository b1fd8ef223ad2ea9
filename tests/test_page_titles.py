"""What the page works out of titles, in functions that need no server: their status on
the device that it sends to, and which of them a search finds."""

from collections.abc import Callable
from typing import Any

import pytest

STATUS = """([ids, away, sent, items, queueing]) => {
  const kinds = {game: "base", update: "update", older: "update", dlc: "add-on"};
  const parts = ids.map(id => ({
    id, kind: kinds[id], part: id === "older" ? "superseded" : undefined,
    patch: {update: 2, older: 1}[id], version: "1", state: "here",
    ...(away.includes(id) && {state: "offline"}),
  }));
  const known = {
    sent: deliveriesTo(sent, "tv"),
    items: itemsByEntry(items, "tv"),
    queueing: new Set(queueing),
  };
  const status = workOutStatus({parts}, known);
  const names = ["isSent", "hasNewer", "away"].filter(name => status[name]);
  return [
    status.status, status.toSend.map(({id}) => id).join(" "),
    ...names.map(name => (name === "away" ? status.away : name)),
  ];
}"""


def sent(
    entry: str, version: str = "1", device: str | None = "tv", **numbers: int
) -> dict[str, Any]:
    """A delivery. `numbers` are those of its contents, by a letter: see IDS."""
    contents = [[IDS[letter], number] for letter, number in numbers.items()]
    facts = {"device": device, "sent_at": "", "contents": contents}
    return {"entry": entry, "version": version, **facts}


IDS = {"b": "0100AAAABBBB0000", "u": "0100AAAABBBB0800", "d": "0100AAAABBBB1001"}
IDS |= {"o": "0100AAAABBBC0000"}
LETTER_KINDS = {"b": "base", "u": "update", "d": "add-on", "o": "base"}


def item(entry: str, status: str, **more: Any) -> dict[str, Any]:
    return {"entry": entry, "status": status, "device": "tv", "is_own": True, **more}


ALL, GAME = ["game", "update", "older", "dlc"], ["game"]
EACH = [sent(entry) for entry in ("game", "update", "dlc")]
CASES: dict[str, tuple[list[Any], list[str]]] = {
    "nothing was sent": ([ALL], ["", "game update dlc"]),
    "all was sent": ([ALL, [], EACH], ["completed", "game update dlc", "isSent"]),
    "an add-on is missing": ([ALL, [], EACH[:2]], ["", "dlc", "isSent"]),
    "an update is missing": (
        [ALL, [], [sent("game"), sent("dlc")]],
        ["", "update", "isSent", "hasNewer"],
    ),
    "an older update was sent": (
        [ALL, [], [sent("game"), sent("older"), sent("dlc")]],
        ["", "update", "isSent", "hasNewer"],
    ),
    "an older version was sent": (
        [GAME, [], [sent("game", "0")]],
        ["", "game", "isSent", "hasNewer"],
    ),
    "it was sent to another device": ([GAME, [], [sent("game", device="pc")]], [""]),
    "it was sent without a device": (
        [GAME, [], [sent("game", device=None)]],
        ["completed", "game", "isSent"],
    ),
    "a part waits": ([ALL, [], [], [item("update", "pending")]], ["pending"]),
    "one part waits, another is being sent": (
        [ALL, [], [], [item("game", "processing"), item("update", "pending")]],
        ["processing"],
    ),
    "it waits again after it was sent": (
        [GAME, [], EACH, [item("game", "pending"), item("game", "completed")]],
        ["pending"],
    ),
    "it has just been sent": (
        [GAME, [], [], [item("game", "completed")]],
        ["completed"],
    ),
    "a part has failed": ([ALL, [], EACH[:1], [item("dlc", "failed")]], ["failed"]),
    "it waits for any device": (
        [GAME, [], [], [item("game", "pending", device=None)]],
        ["pending"],
    ),
    "it waits for another device": (
        [GAME, [], [], [item("game", "pending", device="pc")]],
        ["", "game"],
    ),
    "somebody else has queued it": (
        [GAME, [], [], [item("game", "pending", is_own=False)]],
        ["", "game"],
    ),
    "the call to send it is not answered": ([GAME, [], [], [], GAME], ["queueing"]),
    "its disk is away": ([GAME, GAME], ["", "", "offline"]),
    "the disk of its game is away": ([ALL, GAME], ["", "update dlc", "partly"]),
}


@pytest.mark.parametrize(("known", "expected"), CASES.values(), ids=[*CASES])
def test_the_status_of_a_title_when(
    script: Any, known: list[Any], expected: list[str]
) -> None:
    known = [*known, *[[]] * (5 - len(known))]
    assert script.evaluate(STATUS, known)[: len(expected)] == expected


BASE, OTHER_BASE = "0100ABCD00010000", "0100ABCD00030000"
ENTRIES = [
    {"name": "Paper Harbor", "kind": "base", "base_id": BASE, "title_id": BASE},
    {"name": "Paper Harbor - Season Pass", "kind": "add-on", "base_id": BASE},
    {"name": "Café Étoilé", "kind": "base", "base_id": OTHER_BASE},
    {"name": "Café Étoilé - Version 2", "kind": "update", "base_id": OTHER_BASE},
    {"name": "Smørrebrød"},
    {"name": "Moss & Copper", "author": "Sofa Systems"},
    {"name": "Grandma's Garage", "file_type": "xci"},
    {"name": "Kart Royale 2048 NX 🏁"},
    {"name": "A Harbor"},
    {"name": "ｶﾞｰﾃﾞﾝ Ⅳ"},
    {"name": "カーテン"},
    {"name": "हिन्दी खेल"},
    {"name": "दहन"},
    {"name": "한국 마을"},
]
SEARCH = """([entries, text]) => {
  const listed = entries.map((entry, n) => ({id: `${n}`, created_at: "", ...entry}));
  return matching(titlesOf(listed), text, "").map(({name}) => name);
}"""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("PAPER", ["Paper Harbor"]),
        ("cafe etoile", ["Café Étoilé"]),
        ("smørrebrod", ["Smørrebrød"]),
        ("sofa systems", ["Moss & Copper"]),
        ("0100abcd0001", ["Paper Harbor"]),
        ("  harbor   paper ", ["Paper Harbor"]),
        ("moss and copper", ["Moss & Copper"]),
        ("Moss&Copper", ["Moss & Copper"]),
        ("grandmas garage!", ["Grandma's Garage"]),
        ("season pass", ["Paper Harbor"]),
        ("dlc", ["Paper Harbor"]),
        ("update", ["Café Étoilé"]),
        ("xci", ["Grandma's Garage"]),
        ("kartroyale", ["Kart Royale 2048 NX 🏁"]),
        ("2048nx", ["Kart Royale 2048 NX 🏁"]),
        ("🏁", ["Kart Royale 2048 NX 🏁"]),
        ("🎲", []),
        ("がーでん", ["ｶﾞｰﾃﾞﾝ Ⅳ"]),
        ("ガーデン iv", ["ｶﾞｰﾃﾞﾝ Ⅳ"]),
        ("かーてん", ["カーテン"]),
        ("ｶｰﾃﾝ", ["カーテン"]),
        ("हिन्दी", ["हिन्दी खेल"]),
        ("दहन", ["दहन"]),
        ("마을", ["한국 마을"]),
        ("harbor", ["Paper Harbor", "A Harbor"]),
        ("a harbor", ["A Harbor", "Paper Harbor"]),
        ("harbro", ["Paper Harbor", "A Harbor"]),  # letters that are swapped,
        ("grandms", ["Grandma's Garage"]),  # missing, wrong or too many
        ("papor harbor", ["Paper Harbor"]),
        ("royalle", ["Kart Royale 2048 NX 🏁"]),
        ("coppar", ["Moss & Copper"]),
        ("cppa", []),
        ("pauer herbor", ["Paper Harbor"]),
        ("ガーデン 4", ["ｶﾞｰﾃﾞﾝ Ⅳ"]),
        ("", [entry["name"] for entry in ENTRIES if " - " not in entry["name"]]),
    ],
)
def test_the_search_finds(script: Any, text: str, found: list[str]) -> None:
    assert script.evaluate(SEARCH, [ENTRIES, text]) == found


def test_what_is_nearly_so_comes_after_what_is_so(script: Any) -> None:
    kites = [
        {"name": f"{name} Wars"} for name in ("Knites", "Kite", "Kites", "Oh Kites")
    ]
    found = ["Kites Wars", "Oh Kites Wars", "Knites Wars", "Kite Wars"]
    assert script.evaluate(SEARCH, [kites, "kites"]) == found
    seconds = [{"name": f"Kite Wars {number}"} for number in ("II", "3", "2")]
    for text in ("kite wars 2", "Kite Wars II"):
        both = {"Kite Wars II", "Kite Wars 2"}
        assert both <= {*script.evaluate(SEARCH, [seconds, text])}


@pytest.mark.parametrize(
    ("language", "text", "found"),
    [
        ("de", "oel", ["Öl und Übermut"]),
        ("de", "ol uebermut", ["Öl und Übermut"]),
        ("de", "aals", []),
        ("da", "aalst", ["Ålst"]),
        ("en-GB", "oel", []),
    ],
)
def test_the_search_finds_a_letter_as_the_language_spells_it(
    speaking: Callable[[str], Any], language: str, text: str, found: list[str]
) -> None:
    entries = [{"name": "Öl und Übermut"}, {"name": "Ålst"}]
    assert speaking(language).evaluate(SEARCH, [entries, text]) == found


LIBRARY = [
    {"name": "Card", "file_type": "xci"},
    {"name": "Far away", "type": "url", "file_type": "nsp"},
    {"name": "Program", "kind": "homebrew", "file_type": "nro"},
]
FILTER = """([entries, sent, filter, more]) => {
  const listed = entries.map((entry, n) => ({id: `${n}`, created_at: "", ...entry}));
  const titles = titlesOf(listed);
  Object.assign(state, {sent});
  const found = filtered(matching(titles, "", more), filter).map(({name}) => name);
  state.sent = NOTHING;
  return [found, furtherFilters(titles)];
}"""


@pytest.mark.parametrize(
    ("filter", "more", "shown"),
    [
        ("all", "", ["Card", "Far away", "Program"]),
        ("all", "game", ["Card"]),
        ("all", "homebrew", ["Program"]),
        ("all", "link", ["Far away"]),
        ("all", "nro", ["Program"]),
        ("unsent", "", ["Far away", "Program"]),
        ("unsent", "game", []),
    ],
)
def test_the_library_is_filtered_by(
    script: Any, filter: str, more: str, shown: list[str]
) -> None:
    """And offered are the filters that some of the titles pass."""
    found = script.evaluate(FILTER, [LIBRARY, [sent("0")], filter, more])
    assert found == [shown, ["game", "homebrew", "link", "nro", "nsp", "xci"]]


NAMES = [
    *("Élan", "Emu", "Élan 2", "Élan 10", "ÉLAN 1", "Zeal™ Wars", "Zeal-Wars 2"),
    *("Zealot", "Öl", "Oma", "“Quoted”", "1080", "9 Lives", "§ 7", "あき", "カーテン"),
    *("가을", "🏁"),
]
SORT = """names => {
  const entries = names.map((name, n) => ({id: `${n}`, created_at: "", name}));
  return sorted(titlesOf(entries), "name").map(({name}) => name);
}"""
ENGLISH = [
    *("§ 7", "9 Lives", "1080"),
    *("Élan", "ÉLAN 1", "Élan 2", "Élan 10", "Emu", "Öl", "Oma", "“Quoted”"),
    *("Zeal™ Wars", "Zeal-Wars 2", "Zealot", "가을", "あき", "カーテン"),
    "🏁",
]


@pytest.mark.parametrize(
    ("language", "after"), [("en-GB", "Emu"), ("de", "Emu"), ("sv", "Zealot")]
)
def test_titles_are_sorted_as_the_language_does_with_digits_first(
    speaking: Callable[[str], Any], language: str, after: str
) -> None:
    expected = [name for name in ENGLISH if name != "Öl"]
    expected.insert(expected.index(after) + 1, "Öl")
    assert speaking(language).evaluate(SORT, NAMES) == expected


ORDER = """([entries, order]) => {
  const listed = entries.map((entry, n) => ({id: `${n}`, ...entry}));
  return sorted(titlesOf(listed), order).map(({name}) => name);
}"""
ZEAL = {"base_id": BASE, "title_id": BASE}
DATED = [
    {"name": "Zeal", "kind": "base", "size": 5, "created_at": "1", **ZEAL},
    {"name": "Zeal - 2", "kind": "update", "size": 90, "created_at": "4", **ZEAL},
    {"name": "Élan", "size": 900, "created_at": "3"},
    {"name": "Fjord", "size": 70, "created_at": "2"},
]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("name", ["Élan", "Fjord", "Zeal"]),
        ("newest", ["Zeal", "Élan", "Fjord"]),
        ("size", ["Élan", "Zeal", "Fjord"]),
    ],
)
def test_the_library_is_sorted_by(script: Any, order: str, expected: list[str]) -> None:
    """What all parts of a title have together counts."""
    assert script.evaluate(ORDER, [DATED, order]) == expected


def test_what_the_first_scan_found_is_as_new_as_its_file(script: Any) -> None:
    dated = [{**entry, "file_time": "0"} for entry in DATED[:2]]
    assert script.evaluate(ORDER, [[*dated, *DATED[2:]], "newest"])[-1] == "Zeal"


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("Celeste (NSP)", "Celeste"),
        ("Celeste (celeste v1.xci)", "Celeste"),
        ("Celeste (games/Celeste (v1).nsp)", "Celeste"),
        ("Paper Harbor (USA)", "Paper Harbor (USA)"),
        ("Paper Harbor (EUR)", "Paper Harbor (EUR)"),
        ("Paper Harbor (USA) (XCI)", "Paper Harbor (USA)"),
        ("Paper Harbor (USA) (harbor.nsp)", "Paper Harbor (USA)"),
    ],
)
def test_a_name_loses_the_ending_that_the_server_gave_it_alone(
    script: Any, name: str, plain: str
) -> None:
    assert script.evaluate("name => withoutEnding(name)", name) == plain


def test_sizes_in_sentences_are_written_as_the_language_does(
    speaking: Callable[[str], Any],
) -> None:
    told = "texts => texts.map(message => sentence({message}))"
    texts = ["1.5 GB", "0.8 MB", "2.0 GB", "1942", "Room for 1.5 GB"]  # or are names
    sizes = ["1,5\xa0GB", "800\xa0kB", "2,0\xa0GB"]
    assert speaking("de").evaluate(told, texts) == [*sizes, *texts[3:]]


CONTENTS = """([entries, sent]) => {
  const titles = titlesOf(entries);
  const known = {
    sent: deliveriesTo(sent, "tv"), items: itemsByEntry([], "tv"), queueing: new Set(),
  };
  return titles.map(title => {
    const status = workOutStatus(title, known);
    const parts = status.toSend.map(({id}) => id).join(" ");
    const texts = [joinFacts(contentsOf(title)), countParts(title.parts)];
    return [parts, ...texts, status.status, status.hasNewer ? "newer" : ""];
  });
}"""


def entry(name: str, size: int, unknown: int = 0, **numbers: int) -> dict[str, Any]:
    """An entry of the list, with contents of these versions: see IDS."""
    contents = [
        {"title_id": IDS[letter], "kind": LETTER_KINDS[letter], "version": f"{number}"}
        for letter, number in numbers.items()
    ]
    facts: dict[str, Any] = {**contents[0], "base_id": IDS["b"], "patch": 0}
    facts |= {"id": name, "name": name, "size": size, "state": "here"}
    facts |= {"type": "filepath", "created_at": "", "file_type": "nsp"}
    if len(contents) + unknown > 1:
        facts["contents"] = contents
    return facts | ({"more": {"unknown": unknown}} if unknown else {})


TWO = 131072
GAME_ALONE = entry("game", 20, b=0)
OTHERS = [entry("update", 3, u=TWO), entry("dlc", 2, d=0)]
PACK = entry("pack", 24, b=0, u=TWO, d=0)
SENT_GAME = sent("game", b=0)


@pytest.mark.parametrize(
    ("entries", "deliveries", "expected"),
    [
        ([PACK], [], "pack|Update 2 · 1 add-on|game, update and add-on, in one file||"),
        # The fewest bytes: one file of 24, or three of 25.
        ([GAME_ALONE, *OTHERS, PACK], [], "pack"),
        ([GAME_ALONE, *OTHERS, {**PACK, "size": 26}], [], "game update dlc"),
        # Then the fewest files.
        ([GAME_ALONE, *OTHERS, {**PACK, "size": 25}], [], "pack"),
        # What is missing on the device.
        ([GAME_ALONE, *OTHERS, PACK], [SENT_GAME], "update dlc|Update 2 · 1 add-on"),
        ([GAME_ALONE, PACK], [SENT_GAME], "pack"),
        ([PACK], [sent("x", b=0, u=TWO, d=0)], "pack||completed"),
        ([PACK], [sent("x", b=0, u=1, d=0)], "pack|newer"),
        ([PACK, *OTHERS], [sent("x", b=0)], "update dlc|newer"),
        # What is newer than in the file.
        ([PACK, entry("new", 3, u=TWO * 2)], [], "pack new|Update 4 · 1 add-on"),
        ([entry("card", 20, b=TWO * 2, d=0), OTHERS[0]], [], "card"),
        # A file with contents that are not known is left out if it was sent itself.
        (
            [GAME_ALONE, entry("p", 30, 2, b=0)],
            [SENT_GAME],
            "p|game and 2 more contents",
        ),
        ([GAME_ALONE, entry("p", 30, 2, b=0)], [], "p"),
        ([entry("p", 30, 2, b=0)], [sent("p", "0", b=0)], "p||completed"),
        # Two games of one cartridge are two titles.
        ([entry("card", 9, b=0, o=0)], [], "card|NSP|game, in one file||"),
        ([entry("card", 9, b=0, o=0)], [sent("x", b=0)], "card||completed"),
        ([entry(f"{n}", 9, b=0, u=n) for n in range(12)], [], "11"),
    ],
)
def test_the_contents_of_files_are_those_of_titles(
    script: Any,
    entries: list[dict[str, Any]],
    deliveries: list[dict[str, Any]],
    expected: str,
) -> None:
    first, *_ = script.evaluate(CONTENTS, [entries, deliveries])
    parts, *others = expected.split("|")
    assert first[0] == parts
    assert {*others} <= {*first} or "|".join(first) == expected


def test_a_cartridge_with_two_games_is_part_of_both_titles(script: Any) -> None:
    card = entry("card", 9, b=0, o=0)
    both = script.evaluate(CONTENTS, [[card], [sent("x", b=0)]])
    assert [title[3] for title in both] == ["completed", ""]


def test_the_second_game_of_a_cartridge_has_a_name_and_a_cover(script: Any) -> None:
    """Those of its own file, where there is one."""
    card = {**entry("card", 9, b=0, o=0), "name": "A + B", "icon": "of both"}
    own = {**entry("own", 5, o=0), "name": "B", "base_id": IDS["o"], "icon": "of B"}
    shown = "all => titlesOf(all).map(it => [it.id, it.name, picturedPart(it)?.icon])"
    both = ["A + B", "of both"]
    first, second = [IDS["b"], *both], [IDS["o"], *both]
    assert script.evaluate(shown, [card]) == [first, second]
    for entries in ([card, own], [own, card]):
        titles = script.evaluate(shown, entries)
        assert sorted(titles) == [first, [IDS["o"], "B", "of B"]]


def test_a_file_is_told_as_what_it_is(script: Any) -> None:
    texts = script.evaluate("['zip', 'xci'].map(formatName)")
    assert texts == ["no package, but a ZIP archive", "XCI"]


def test_what_is_no_package_is_not_called_incomplete(script: Any) -> None:
    """Nobody should copy it again."""
    marks = """parts => [
      marksOfTitle(titlesOf(parts.map(part => ({...part, created_at: ""})))[0]),
      marksOfPart(parts[0], ""),
    ].map(marks => marks.filter(([isShown]) => isShown).map(([, name]) => name))"""
    part = {"id": "1", "name": "Chess", "state": "here", "complete": False}
    assert script.evaluate(marks, [part]) == [["incomplete"], ["incomplete"]]
    for format in ("html", "zip", "rar", "7z", "zeros"):
        other = {**part, "format": format}
        assert script.evaluate(marks, [other]) == [["noPackage"], ["noPackage"]]
