"""Check a translation of the page: `words.py de.json` prints what is missing, unknown
or still English, and what to do. For a new or empty file, it prints one to fill in."""

import json
import pathlib
import sys
from collections.abc import Iterator, Mapping, Sequence

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from catalogd import (
    ALL_PLURALS,
    PLACEHOLDER,
    SENTENCES,
    WORDS,
    Problem,
    Translation,
    read_translation,
    texts_of,
)

ENGLISH_TEXTS = texts_of({"words": WORDS, "sentences": SENTENCES})
PLURALS = {  # by languages; others have one and other
    "id ja ko ms th vi zh": "other",
    "bs cs hr lt ro sk sr": "one few other",
    "be pl ru uk": "one few many other",
    "he": "one two other",
    "lv": "zero one other",
    "sl": "one two few other",
    "ar": ALL_PLURALS,
}


def plurals_of(language: str) -> list[str]:
    code = language.partition("-")[0]
    found = [forms for codes, forms in PLURALS.items() if code in codes.split()]
    return (found or ["one other"])[0].split()


def translation_faults(language: str, found: Translation) -> Iterator[str]:
    """Yield what is wrong with a translation, and what to do about it."""
    for key in sorted(found.texts.keys() - ENGLISH_TEXTS.keys()):
        yield f"{key}: unknown. Remove it."
    needed = plurals_of(language)
    for key, english in ENGLISH_TEXTS.items():
        text = found.texts.get(key)
        if not text:
            yield f'{key}: missing. Translate "{english["other"]}".'
            continue
        has_words = any(map(str.isalpha, PLACEHOLDER.sub("", english["other"])))
        if text == english and has_words and key not in found.about.get("same", ()):
            yield f'{key}: as in English. Translate it, or add it to "same".'
        for fault in text_faults(english, text, needed):
            yield f"{key}: {fault}"


def text_faults(
    english: Mapping[str, str], text: Mapping[str, str], needed: Sequence[str]
) -> Iterator[str]:
    for form in needed if "one" in english else ():
        if form not in text:
            yield f'the plural form "{form}" is missing. Add it.'
    for form, words in text.items():
        names, known, used = (
            {*PLACEHOLDER.findall(each)}
            for each in (english["other"], english.get(form, english["other"]), words)
        )
        for name in used - names:
            yield f"{{{name}}} is unknown. Remove it."
        for name in known - used - ({"count"} if form in ("zero", "two") else set()):
            yield f"{{{name}}} is missing. Add it."


def main(file: str) -> int:
    path = pathlib.Path(file)
    if not (path.exists() and path.stat().st_size):  # the shell makes it empty
        about = {"language": "", "direction": "ltr", "machine": False, "form": ""}
        new = {"about": {**about, "same": []}, "words": WORDS, "sentences": SENTENCES}
        print(json.dumps(new, indent=1, ensure_ascii=False))
        return 0
    try:
        faults = [*translation_faults(path.stem, read_translation(path))]
    except Problem as problem:
        print(problem, file=sys.stderr)
        return 2
    print("\n".join(faults) or "ok")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) if len(sys.argv) == 2 else __doc__)
