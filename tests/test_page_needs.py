"""The browsers that the page needs: what its style and its script use is looked up."""

import pathlib
import re
from typing import Any

import catalogd
from browser import button, see, sending

INSTALL = pathlib.Path(catalogd.__file__).parent / "packaging" / "install.md"
# The first versions of Chrome (and Edge), Firefox and Safari, on a phone too, that have
# what a pattern finds, by MDN's browser-compat-data. To use another new feature, add
# it; what all had in 2022 needs no line.
FEATURES = {
    r"\bcolor-mix\(": (111, 113, 16.2),
    r":dir\(": (120, 49, 16.4),
    r":has\(": (105, 115, 15.4),  # Firefox has it since 121, and is plainer before
    r"\.requestSubmit\(": (76, 75, 16),
    r"<dialog|showModal": (37, 98, 15.4),
    r"\bcrypto\.randomUUID|structuredClone\(|\.at\(": (98, 95, 15.4),
    r"^ +& ": (120, 117, 17.2),  # nested rules
    r"^ +mask-image:": (1, 53, 15.4),  # Chrome has it with a prefix until 120
    r"\dlh\b": (109, 120, 16.4),
    r"(?:@media|matchMedia\(\") ?\(\w+ [<>]=? ": (104, 102, 16.4),
    r"\(\?<[=!]": (62, 78, 16.4),
    r"\b(?:Map|Object)\.groupBy\(": (117, 119, 17.4),
    r"\.to(?:Reversed|Sorted|Spliced)\(|\.with\(": (110, 115, 16),
    r"\.findLast(?:Index)?\(": (97, 104, 15.4),
    r"AbortSignal\.any\(": (116, 124, 17.4),
    r"AbortSignal\.timeout\(": (103, 100, 16),
    r"URL\.canParse\(": (120, 115, 17),
    r"Promise\.withResolvers\(": (119, 121, 17.4),
    r"@starting-style": (117, 129, 17.5),
    r"\blight-dark\(": (123, 120, 17.5),
    r"\.(?:union|intersection|difference|isSubsetOf)\(": (122, 127, 17),
    r"\.(?:values|keys|entries)\(\)\.(?:map|filter|some|find)\(": (122, 131, 18.4),
    r"Promise\.try\(": (128, 134, 18.2),
    r"RegExp\.escape\(": (136, 134, 18.2),
    r"\bclosedby\b": (134, 141, 27.3),
    r"@scope\b": (118, 146, 26.4),
    r"startViewTransition|view-transition-name:": (111, 144, 18),
    r"^ +(?:field-sizing|interpolate-size|text-box|anchor-name):": (134, 200, 27.3),
}
# What others do without, since it only adorns or the style or script asks before.
ADORNMENTS = [
    "scrollbar-gutter:",
    "overscroll-behavior:",
    "text-wrap: balance",
    "word-break: auto-phrase",
    "content-visibility:",
    "@supports (position-area: bottom)",
    "@supports not selector(:popover-open)",
    "@supports not selector(:has(a))",
    'CSS.supports("selector(:popover-open)")',
    'CSS.supports("selector(:open)")',
]


def used(pattern: str) -> bool:
    return bool(re.search(pattern, catalogd.CSS + catalogd.JS, re.MULTILINE))


def test_the_page_needs_the_browsers_that_it_and_the_documents_name() -> None:
    found = [versions for pattern, versions in FEATURES.items() if used(pattern)]
    chrome, firefox, safari = (max(column) for column in zip(*found, strict=True))
    named = f"Chrome or Edge {chrome}, Firefox {firefox} or Safari {safari}, or later"
    for text in (INSTALL.read_text(encoding="utf-8"), catalogd.HTML):
        assert named in " ".join(text.split())


def test_what_the_page_does_without_is_there_and_asked_for() -> None:
    text = catalogd.CSS + catalogd.JS
    assert [each for each in ADORNMENTS if each not in text] == []
    outside = re.sub(r"@supports \(position-area.*?\n}\n", "", text, flags=re.DOTALL)
    assert "position-area" not in outside


def test_without_has_what_is_chosen_cancelled_or_dismissed_is_seen_and_pressed(
    anna: Any, store: catalogd.Store
) -> None:
    """As in Firefox 115. Playwright presses only what nothing covers."""
    style = catalogd.CSS.replace(":has(", ":-x-has(")
    answer = {"body": style, "content_type": "text/css"}
    anna.route(re.compile(r"style\.css"), lambda route: route.fulfill(**answer))
    sending(store)
    anna.goto("#queue")
    button(anna, "Cancel Paper Harbor").click()
    see(anna, "Paper Harbor was cancelled.")
    button(anna, "Undo").click()
    anna.goto("#settings/devices")
    button(anna, "Add a device").click()
    button(anna, "Not found?").click()
    anna.get_by_role("radio").first.focus()
    anna.keyboard.press("ArrowDown")
    chosen = anna.get_by_role("radio", checked=True)
    assert chosen.evaluate("node => getComputedStyle(node).opacity") == "1"
