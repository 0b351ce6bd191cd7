"""Condition operators of IAM, in three-valued logic: True, False, or None for "depends on what nobody knows yet"."""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Callable, Iterable, Mapping

from firstfault.checks.iam.matching import arn_matches, expand, glob_matches

__all__ = ["Tri", "all_of", "any_of", "conditions_hold"]

Tri = bool | None
_Compare = Callable[[str, str], bool]
_IF_EXISTS = "IfExists"
_ALL, _ANY = "ForAllValues:", "ForAnyValue:"


def all_of(values: Iterable[Tri]) -> Tri:
    """Kleene's conjunction."""
    result: Tri = True
    for value in values:
        if value is False:
            return False
        result = None if value is None else result
    return result


def any_of(values: Iterable[Tri]) -> Tri:
    """Kleene's disjunction."""
    result: Tri = False
    for value in values:
        if value is True:
            return True
        result = None if value is None else result
    return result


def _number(compare: Callable[[float, float], bool]) -> _Compare:
    return lambda wanted, given: compare(float(given), float(wanted))


def _date(compare: Callable[[float, float], bool]) -> _Compare:
    return lambda wanted, given: compare(_timestamp(given), _timestamp(wanted))


def _timestamp(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        moment = dt.datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).timestamp()


def _address(wanted: str, given: str) -> bool:
    return ipaddress.ip_address(given) in ipaddress.ip_network(wanted, strict=False)


def _string(wanted: str, given: str) -> bool:
    # A variable's literal star has been marked by `expand`; in StringEquals it is the character.
    return wanted.replace("\x00", "*").replace("\x01", "?") == given


_POSITIVE: dict[str, _Compare] = {
    "StringEquals": _string,
    "StringEqualsIgnoreCase": lambda wanted, given: wanted.casefold() == given.casefold(),
    "StringLike": glob_matches,
    "ArnEquals": arn_matches,
    "ArnLike": arn_matches,
    "Bool": lambda wanted, given: wanted.lower() == given.lower(),
    "BinaryEquals": lambda wanted, given: wanted == given,
    "IpAddress": _address,
    "NumericEquals": _number(lambda given, wanted: given == wanted),
    "NumericLessThan": _number(lambda given, wanted: given < wanted),
    "NumericLessThanEquals": _number(lambda given, wanted: given <= wanted),
    "NumericGreaterThan": _number(lambda given, wanted: given > wanted),
    "NumericGreaterThanEquals": _number(lambda given, wanted: given >= wanted),
    "DateEquals": _date(lambda given, wanted: given == wanted),
    "DateLessThan": _date(lambda given, wanted: given < wanted),
    "DateLessThanEquals": _date(lambda given, wanted: given <= wanted),
    "DateGreaterThan": _date(lambda given, wanted: given > wanted),
    "DateGreaterThanEquals": _date(lambda given, wanted: given >= wanted),
}
_NEGATED: dict[str, str] = {
    "StringNotEquals": "StringEquals",
    "StringNotEqualsIgnoreCase": "StringEqualsIgnoreCase",
    "StringNotLike": "StringLike",
    "ArnNotEquals": "ArnEquals",
    "ArnNotLike": "ArnLike",
    "NotIpAddress": "IpAddress",
    "NumericNotEquals": "NumericEquals",
    "DateNotEquals": "DateEquals",
}


def conditions_hold(
    conditions: Mapping[str, Mapping[str, list[str]]], context: Mapping[str, list[str]], unknown: Callable[[str], bool]
) -> Tri:
    """Tell whether every operator and key of a Condition holds.

    Args:
        conditions: {operator: {key: [values]}} as in the policy.
        context: The request's values by lower-case key; a key that is not there is absent from the request.
        unknown: Tells of a lower-case key that it may have any value or none.
    """
    return all_of(
        _holds(operator, key.lower(), values, context, unknown)
        for operator, keys in conditions.items()
        for key, values in keys.items()
    )


def _holds(
    operator: str, key: str, wanted: list[str], context: Mapping[str, list[str]], unknown: Callable[[str], bool]
) -> Tri:
    given = context.get(key)
    if given is None and unknown(key):
        return None
    if operator == "Null":
        return any(value.lower() == ("true" if given is None else "false") for value in wanted)
    quantifier = next((prefix for prefix in (_ALL, _ANY) if operator.startswith(prefix)), "")
    name = operator.removeprefix(quantifier)
    if_exists = name.endswith(_IF_EXISTS)
    name = name.removesuffix(_IF_EXISTS)
    negated = name in _NEGATED
    compare = _POSITIVE.get(_NEGATED.get(name, name))
    if compare is None:
        return None
    if not given:
        return _without_value(quantifier, negated=negated, if_exists=if_exists)
    expanded = [value for value in (expand(item, context) for item in wanted) if value is not None]
    matched = [any(_safely(compare, value, item) for value in expanded) for item in given]
    passing = [match != negated for match in matched]
    # Without a quantifier, several values of a key count as any of them, and for a negation as all.
    every = quantifier == _ALL or (negated and quantifier != _ANY)
    return all(passing) if every else any(passing)


def _without_value(quantifier: str, *, negated: bool, if_exists: bool) -> bool:
    """Return what a missing key means: IfExists and ForAllValues hold, ForAnyValue does not, a negation holds."""
    if if_exists or quantifier == _ALL:
        return True
    return negated and quantifier != _ANY


def _safely(compare: _Compare, wanted: str, given: str) -> bool:
    """Compare; values of the wrong type match nothing."""
    try:
        return compare(wanted, given)
    except ValueError:
        return False
