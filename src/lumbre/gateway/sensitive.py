"""What in a text is nobody's business outside the house: e-mail addresses, phones, cards, IBANs, keys, and whatever the
operator names. Pure; redaction asks it.

Every search is linear in the text. A run of characters is entered at its beginning only, or has a bound, or is found
and left behind; that is why the expressions below look around themselves and keep what they have taken.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from string import ascii_letters

from lumbre.gateway.own_patterns import compiled

KINDS = ("email", "phone", "card", "iban", "key")
LITERAL = "literal"
"""The kind of what only looks like a placeholder, and would come back as something else if it were left there."""

_NAME = re.compile(r"[a-z][a-z0-9_]{0,23}")


@dataclass(frozen=True, slots=True)
class Found:
    """A place in a text, `end` excluded, and what is there."""

    start: int
    end: int
    kind: str


class Finder:
    """Knows what to look for.

    Args:
        own: the operator's patterns by their names; a name is lower case, at most 24 letters, digits and `_`.

    Attributes:
        kinds: the house's kinds and the operator's.
        placeholder: what stands for a hidden value, such as `<EMAIL_1>`.

    Raises:
        ValueError: a name or a pattern that is not taken; says which, and why.
    """

    def __init__(self, own: Mapping[str, str] | None = None) -> None:
        patterns = {name: _checked(name, pattern) for name, pattern in (own or {}).items()}
        self.kinds = (*KINDS, *patterns)
        names = "|".join(kind.upper() for kind in (*self.kinds, LITERAL))
        self.placeholder = re.compile(f"<(?:{names})_[1-9][0-9]{{0,8}}>")
        self._searches: tuple[tuple[str, _Search], ...] = (
            (LITERAL, _search(self.placeholder)),
            *((name, _search(matcher)) for name, matcher in patterns.items()),
            *_SEARCHES.items(),
        )

    def find(self, text: str) -> list[Found]:
        """Find everything, in order. Finds that overlap are one, of the kind of the longest."""
        found = [Found(*place, kind) for kind, search in self._searches for place in search(text)]
        found.sort(key=lambda each: each.start)
        merged: list[Found] = []
        longest = 0
        for each in found:
            length = each.end - each.start
            if merged and each.start < merged[-1].end:
                last = merged[-1]
                kind, longest = (each.kind, length) if length > longest else (last.kind, longest)
                merged[-1] = Found(last.start, max(last.end, each.end), kind)
            else:
                merged.append(each)
                longest = length
        return merged


_Search = Callable[[str], Iterator[tuple[int, int]]]


def _checked(name: str, pattern: str) -> re.Pattern[str]:
    if not _NAME.fullmatch(name) or name in (*KINDS, LITERAL):
        raise ValueError(f"the pattern's name {name[:40]!r} is taken, or is not of lower-case letters, digits and `_`")
    try:
        return compiled(pattern)
    except ValueError as error:
        raise ValueError(f"the pattern {name!r} {error}") from error


def _search(matcher: re.Pattern[str]) -> _Search:
    group = "hidden" if "hidden" in matcher.groupindex else 0

    def places(text: str) -> Iterator[tuple[int, int]]:
        return (match.span(group) for match in matcher.finditer(text))

    return places


# No scripts that are written without spaces: the words before an address would be taken for a part of it.
_LETTER = "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u052f\u1e00-\u1fff"
_LOCAL = rf"{_LETTER}0-9._%+'-"
_DOMAIN = rf"(?:[{_LETTER}0-9-]{{1,63}}+\.){{1,12}}(?:xn--[a-zA-Z0-9-]{{2,59}}|[{_LETTER}]{{2,63}})"
_EMAIL = re.compile(
    rf"(?<![{_LOCAL}])['.%+-]*+(?P<hidden>[{_LOCAL}]++@"
    rf"(?![0-9]x\.(?:png|jpe?g|gif|webp|svg)\b){_DOMAIN})"  # logo@2x.png is a file
)
_EMAIL_IN_URL = re.compile(rf"(?<![{_LETTER}0-9._+'-])[{_LETTER}0-9._+'-]++%40{_DOMAIN}")

_PHONE = re.compile(
    r"(?<![0-9A-Za-z_+])(?<![0-9]\.)(?<![0-9A-Za-z]-)(?:"  # no part of a number, a version or a UUID
    r"\+[1-9](?:[ .\-/()]{0,2}[0-9]){6,14}"
    r"|00[1-9](?:[ .\-/()]{0,2}[0-9]){7,13}"
    # As in North America. Three numbers with spaces between them may be just that.
    r"|(?:1[ .-]?)?\([2-9][0-9]{2}\)[ .-]?[0-9]{3}[ .-][0-9]{4}"
    r"|(?:1[ .-])?[2-9][0-9]{2}(?:[.-][0-9]{3}[.-]|[ .-][2-9][0-9]{2}[ .-])[0-9]{4}"
    # As in Spain. 91.123.45.67 is left, since it is an address of a computer as well.
    r"|(?:[6-9][0-9]{8}|[6-9][0-9]{2}(?:(?:[ .-][0-9]{3}){2}|(?:[ .-][0-9]{2}){3}))(?!\.[0-9])"
    r"|[89][0-9][ -][0-9]{3}[ -]?[0-9]{2}[ -]?[0-9]{2}"
    # As in most of Europe, after a 0: nine digits at least, and one kind of mark, which no date and time has.
    r"|(?=0[1-9][0-9]{0,3}(?P<mark>[ ./-]))(?=(?:(?P=mark)?[0-9]){9,11}+(?![0-9]))"
    r"0[1-9][0-9]{0,3}(?:(?P=mark)[0-9]{2,8}){1,4}"
    r")(?![0-9A-WYZa-wyz_])"  # an x begins an extension
)


def _emails(text: str) -> Iterator[tuple[int, int]]:
    for match in _EMAIL.finditer(text):
        yield match.span("hidden")
    for match in _EMAIL_IN_URL.finditer(text):
        yield match.span()


_DIGIT_GROUPS = re.compile(r"(?<![0-9A-Za-z_])[0-9]{4,19}+(?![0-9A-Za-z_])(?:[ -][0-9]{3,19}+(?![0-9A-Za-z_]))*+")
_DIGITS = re.compile(r"[0-9]+")
_CARD_DIGITS = range(13, 20)
_DOUBLED = str.maketrans("0123456789", "0246813579")
"""Each digit doubled, and the digits of that added up."""


def _cards(text: str) -> Iterator[tuple[int, int]]:
    """Whole groups of digits with a right Luhn sum: four or more in each, three in the last. A card begins with 2-6."""
    for run in _DIGIT_GROUPS.finditer(text):
        digits = run[0].replace(" ", "").replace("-", "")
        groups = [match.span() for match in _DIGITS.finditer(text, *run.span())]
        before = [0, *accumulate(end - start for start, end in groups)]
        first = 0
        while first < len(groups):
            last = _card_at(digits, before, first) if digits[before[first]] in "23456" else None
            if last is not None:
                yield groups[first][0], groups[last][1]
            first = first + 1 if last is None else last + 1


def _card_at(digits: str, before: Sequence[int], first: int) -> int | None:
    """The last group of the longest card that begins with a group; `before`: the digits before each, and in all."""
    best = None
    for number in range(first, len(before) - 1):
        count = before[number + 1] - before[first]
        if count in _CARD_DIGITS and _luhn(digits[before[first] : before[number + 1]]):
            best = number
        if count >= _CARD_DIGITS.stop or before[number + 1] - before[number] < 4:
            break
    return best


def _luhn(digits: str) -> bool:
    figures = digits[-1::-2] + digits[-2::-2].translate(_DOUBLED)
    return (sum(figures.encode()) - len(figures) * ord("0")) % 10 == 0


_IBAN_HEAD = re.compile(r"(?<![0-9A-Za-z])[A-Za-z]{2}[0-9]{2}(?=[ -]?[0-9A-Za-z])")
_IBAN_ALONE = re.compile(r"[0-9A-Za-z]{15,34}+(?![0-9A-Za-z])")
_AS_NUMBER = str.maketrans({letter: str(int(letter, 36)) for letter in ascii_letters} | {" ": "", "-": ""})
_COUNTRIES = {
    15: "NO",
    16: "BE",
    18: "DK FI FK FO GL NL SD",
    19: "MK SI",
    20: "AT BA EE KZ LT LU MN XK",
    21: "CH HR LI LV",
    22: "BG BH CR DE GB GE IE ME RS VA",
    23: "AE GI IL IQ OM SO TL",
    24: "AD CZ ES MD PK RO SA SE SK TN VG",
    25: "LY PT ST",
    26: "IS TR",
    27: "BI DJ FR GR IT MC MR SM",
    28: "AL AZ BY CY DO GT HN HU LB NI PL SV",
    29: "BR EG PS QA UA",
    30: "JO KW MU YE",
    31: "MT SC",
    32: "LC",
    33: "RU",
}
"""By the characters of an IBAN, from the registry that SWIFT keeps for ISO 13616."""
_IBAN_OF = {
    country: re.compile(rf"[0-9A-Za-z](?:[ -]?[0-9A-Za-z]){{{length - 1}}}(?![0-9A-Za-z])")
    for length, countries in _COUNTRIES.items()
    for country in countries.split()
}


def _ibans(text: str) -> Iterator[tuple[int, int]]:
    """Those whose remainder by 97 is right: of a known country's length, or written without spaces."""
    for head in _IBAN_HEAD.finditer(text):
        shape = _IBAN_OF.get(head[0][:2].upper(), _IBAN_ALONE)
        if (match := shape.match(text, head.start())) is not None:
            number = match[0].translate(_AS_NUMBER)
            if int(number[6:] + number[:6]) % 97 == 1:
                yield match.span()


_NUMBERED = "(?=[A-Za-z_-]{0,60}+[0-9])"  # has a digit, which `sk-` before plain words has not
_KEY = re.compile(
    r"(?<![0-9A-Za-z])(?:"
    rf"sk-{_NUMBERED}[0-9A-Za-z_-]{{16,}}+"
    r"|[sr]k_(?:live|test)_[0-9A-Za-z]{16,}+"
    r"|gh[opsur]_[0-9A-Za-z]{30,}+|github_pat_[0-9A-Za-z_]{20,}+"
    rf"|glpat-{_NUMBERED}[0-9A-Za-z_-]{{20,}}+"
    rf"|xox[a-z]-{_NUMBERED}[0-9A-Za-z-]{{10,}}+"
    r"|A[KS]IA[0-9A-Z]{16}(?![0-9A-Za-z])"
    r"|AIza[0-9A-Za-z_-]{35}"
    r"|hf_[0-9A-Za-z]{30,}+"
    r"|lumbre-[0-9A-Za-z_-]{43}"
    r"|(?<![_-])eyJ[0-9A-Za-z_-]{8,}+\.eyJ[0-9A-Za-z_-]{8,}+\.[0-9A-Za-z_-]*+"
    r"|[Bb]earer[ \t]{1,4}+(?=[A-Za-z._~+/-]{0,200}+[0-9])(?P<hidden>[0-9A-Za-z._~+/-]{7,}[0-9A-Za-z_~+/-]={0,2})"
    r")"
)
_PEM = re.compile(
    r"-----BEGIN [0-9A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:"
    r"(?:[0-9A-Za-z+/=:,.()\\\s]++|-(?!----))*+-----END [0-9A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"|(?:(?:\s|\\[rn])*+[0-9A-Za-z+/=]{16,}+)++)"  # cut off before its end
)


def _keys(text: str) -> Iterator[tuple[int, int]]:
    for match in _KEY.finditer(text):
        yield match.span("hidden") if match["hidden"] is not None else match.span()
    for match in _PEM.finditer(text):
        yield match.span()


_SEARCHES: Mapping[str, _Search] = {
    "email": _emails,
    "phone": _search(_PHONE),
    "card": _cards,
    "iban": _ibans,
    "key": _keys,
}
