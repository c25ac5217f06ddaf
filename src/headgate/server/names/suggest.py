"""Which alias rules would give tested datasets the producer they lack.

A dataset with test results that no job writes, and one that a job writes, have the same last part: likely one
thing under two names. Where several such pairs differ in the same way, one rule does for all of them. Works on names
alone; finding the pairs and applying a rule is the store's business.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from headgate.domain.names import AliasRule, Patterns, apply_rules
from headgate.domain.words import last_part
from headgate.errors import InvalidFields
from headgate.server.names.plan import new_rule

MAX_TEXT = 500

_SEPARATORS = "/."


class Named(NamedTuple):
    """A dataset, as far as its name goes."""

    id: UUID
    namespace: str
    name: str

    @property
    def urn(self) -> str:
        return f"{self.namespace}/{self.name}"


class Pair(NamedTuple):
    """A tested dataset without a producer, and one that may be the same."""

    orphan: Named
    candidate: Named


class Confidence(StrEnum):
    high = "high"
    medium = "medium"
    low = "low"


class Suggestion(NamedTuple):
    """A rule, and the pairs that it would make one."""

    rule: AliasRule
    pairs: tuple[Pair, ...]
    confidence: Confidence
    reason: str


Text = tuple[str, str]  # pattern and canonical


class _Choice(NamedTuple):
    """A pair, the end that both names share but for case, and the texts of rules for it, the narrowest first."""

    pair: Pair
    shared: str
    # How much of it is spelled alike.
    spelled: int
    texts: tuple[Text, ...]

    @property
    def likeness(self) -> tuple[int, int]:
        return len(self.shared), self.spelled


def suggest(pairs: Iterable[Pair], patterns: Patterns) -> list[Suggestion]:
    """One rule for each orphan, the surest first, and of those the ones that resolve the most."""
    choices: dict[Named, list[_Choice]] = defaultdict(list)
    for pair in sorted(pairs):
        choices[pair.orphan].append(_choice(pair))
    resolves = _resolved(choices.values())
    rules: dict[Text, AliasRule | None] = {}
    chosen: dict[Text, list[_Choice]] = defaultdict(list)
    for some in choices.values():
        for text, choice in _ranked(some, resolves):
            if text not in rules:
                rules[text] = _rule(text)
            if (rule := rules[text]) is not None and _joins(rule, choice.pair, patterns):
                chosen[text].append(choice)
                break
    made = [_suggestion(rule, chosen[text], choices) for text, rule in rules.items() if rule and text in chosen]
    return sorted(made, key=_place)


def _place(suggestion: Suggestion) -> tuple[int, int, str, str]:
    surer = list(Confidence).index(suggestion.confidence)
    return surer, -len(suggestion.pairs), suggestion.rule.pattern, suggestion.rule.canonical


def _resolved(orphans: Iterable[Sequence[_Choice]]) -> dict[Text, int]:
    """How many orphans each rule resolves. A rule that would lead another orphan astray is no rule."""
    resolves: Counter[Text] = Counter()
    fits: Counter[str] = Counter()
    for choices in orphans:
        texts = {text for choice in choices for text in choice.texts}
        resolves.update(texts)
        fits.update({pattern for pattern, _ in texts})
    return {text: count for text, count in resolves.items() if count == fits[text[0]]}


def _ranked(choices: Sequence[_Choice], resolves: Mapping[Text, int]) -> list[tuple[Text, _Choice]]:
    """The candidates that are most alike first, by the rule that resolves the most; of equal rules the narrowest."""
    ranked = [
        ((*(-size for size in choice.likeness), -resolves[text], place, choice.pair.candidate), text, choice)
        for choice in choices
        for place, text in enumerate(choice.texts)
        if text in resolves
    ]
    return [(text, choice) for _, text, choice in sorted(ranked, key=lambda each: each[0])]


def _choice(pair: Pair) -> _Choice:
    """Rules for the two alone, for a schema or folder, for all that they share."""
    orphan, candidate = pair.orphan.name, pair.candidate.name
    spelled = shared_end(orphan, candidate)
    shared = orphan[len(orphan) - len(shared_end(orphan.lower(), candidate.lower())) :]
    texts = []
    for kept in dict.fromkeys(("", last_part(spelled), spelled)):
        variable = "" if not kept else "{name*}" if "/" in kept else "{name}"
        text = pair.orphan.urn.removesuffix(kept) + variable, pair.candidate.urn.removesuffix(kept) + variable
        if max(map(len, text)) <= MAX_TEXT:
            texts.append(text)
    return _Choice(pair, shared, len(spelled), tuple(texts))


def shared_end(one: str, other: str) -> str:
    """The end of both names, from the beginning of a part on."""
    longest = 0
    for size, (letter, same) in enumerate(zip(reversed(one), reversed(other), strict=False), 1):
        if letter != same:
            break
        if _begins_part(one, size) and _begins_part(other, size):
            longest = size
    return one[len(one) - longest :]


def _rule(text: Text) -> AliasRule | None:
    """The rule, unless the names have something in them that no rule can say."""
    try:
        return new_rule(*text)
    except InvalidFields:
        return None


def _joins(rule: AliasRule, pair: Pair, patterns: Patterns) -> bool:
    """Whether the rule really leads from the one to the other; names are put in order on the way."""
    orphan, candidate = pair
    return apply_rules((orphan.namespace, orphan.name), [rule], patterns) == (candidate.namespace, candidate.name)


def _suggestion(rule: AliasRule, group: Sequence[_Choice], choices: Mapping[Named, Sequence[_Choice]]) -> Suggestion:
    pairs = tuple(choice.pair for choice in group)
    alike = (sum(other.likeness == choice.likeness for other in choices[choice.pair.orphan]) for choice in group)
    rivals = max(alike) - 1
    is_same = all(pair.orphan.name == pair.candidate.name for pair in pairs)
    # Many databases make no difference.
    but_for_case = "" if all(choice.spelled == len(choice.shared) for choice in group) else " but for case"
    is_same = is_same or all(pair.orphan.urn.lower() == pair.candidate.urn.lower() for pair in pairs)
    likeness = f"both are named {pairs[0].orphan.name!r}" if is_same else f"both names end in {group[0].shared!r}"
    likeness += but_for_case
    if rivals:
        others = "another written dataset" if rivals == 1 else f"{rivals} other written datasets"
        return Suggestion(rule, pairs, Confidence.low, f"{likeness}, like {others}")
    confidence = Confidence.high if is_same else Confidence.medium
    return Suggestion(rule, pairs, confidence, f"{likeness}, unlike any other written dataset")


def _begins_part(text: str, size: int) -> bool:
    return size == len(text) or text[-size - 1] in _SEPARATORS
