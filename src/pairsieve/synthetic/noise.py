"""What surrounds a question without changing what is asked? Greetings, people, places, hurry, thanks.

`[x|y]` is a free choice of words, `{place}`, `{person}` and `{time}` come from the lists below.
"""

from __future__ import annotations

PLACES = (
    "Lisbon", "Toronto", "Nairobi", "Osaka", "Denver", "Glasgow", "Warsaw", "Mumbai", "Santiago", "Oslo",
    "Cape Town", "Melbourne", "Dublin", "Manila", "Athens", "Chicago", "Lagos", "Seoul", "Zurich", "Havana",
    "Texas", "Bavaria", "Tuscany", "Alaska", "Brittany", "Cornwall", "Quebec", "Tasmania",
)  # fmt: skip

PEOPLE = (
    "sister", "brother", "uncle", "aunt", "grandmother", "grandfather", "roommate", "colleague", "daughter",
    "son", "mother-in-law", "best friend", "cousin", "girlfriend", "fiancé", "nephew", "godmother", "student",
)  # fmt: skip

TIMES = (
    "by tonight", "by Friday", "this weekend", "next week", "by tomorrow morning", "before Christmas",
    "in an hour", "by noon", "before summer", "within ten minutes", "by Monday", "before my holidays",
)  # fmt: skip

OPENINGS = (
    "hi,", "hello,", "hey everyone,", "hi all,", "good morning,", "dear community,", "quick question:",
    "sorry if asked before:", "silly question, but", "first post here.", "just curious:",
    "help!", "long time reader here.", "I found nothing on this.", "so,", "ok,",
    "please be kind,", "wrong place maybe,",
)  # fmt: skip

SETTINGS = (
    "my {person} in {place} asks:",
    "asking for my {person}:",
    "we just moved to {place} and I wonder,",
    "I live in {place}.",
    "greetings from {place}!",
    "my {person} and I have a bet:",
    "sitting in a café in {place},",
    "my {person} is driving me crazy with this:",
    "I am [17|23|34|48|61|70] and from {place}.",
    "my {person} brought this up:",
    "in {place} nobody could tell me,",
    "my {person} from {place} is visiting.",
    "I am [a single parent|a night worker|retired|unemployed|an exchange student] in {place}.",
)

CLOSINGS = (
    "thanks in advance.",
    "thank you!",
    "cheers from {place}.",
    "I need to know {time}.",
    "it is [urgent|really urgent], my {person} is waiting.",
    "please answer {time}.",
    "asap please.",
    "my {person} says it cannot be done.",
    "I am in {place} if that matters.",
    "no hurry.",
    "my {person} would be so happy.",
    "any hint is welcome.",
    "I have to tell my {person} {time}.",
    "sorry for my English.",
    "greetings to all in {place}.",
)
