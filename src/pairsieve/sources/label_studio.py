"""Export of questions to Label Studio, and import of its annotations.

Out: tasks as JSON (`data` holds keys and texts) and a labelling configuration with three choices. Back: the
project exported as JSON (all annotations of all annotators) or JSON-MIN. Cancelled annotations and drafts are
no answers; of several annotations by one person on one task the latest counts, as in the ledger.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

from pairsieve.errors import InputError
from pairsieve.files import parse_json
from pairsieve.ledger.names import person_name
from pairsieve.sources.exchange import (
    AnswerFile,
    AskedPairs,
    FileAnswer,
    QuestionBatch,
    no_labels,
    read_label,
    read_text,
)

_CHOICES = (("match", "y"), ("no match", "n"), ("unsure", "u"))  # value, hotkey


def tasks_json(batch: QuestionBatch) -> str:
    """One task per question; keys travel in `data` and come back in every export."""
    wanted = ("left_key", "right_key", "left_text", "right_text")
    tasks = [{"data": {name: row[name] for name in wanted}} for row in batch.rows()]
    return json.dumps(tasks, ensure_ascii=False, indent=1)


def labelling_config(guideline: str = "") -> str:
    """The XML for Settings → Labeling Interface: the two texts side by side, three choices, a comment."""
    choices = "\n".join(f'    <Choice value="{value}" hotkey="{key}"/>' for value, key in _CHOICES)
    words = guideline.strip() or "Do these two match?"
    return f"""<View>
  <Header value={quoteattr(words)}/>
  <View style="display: flex; gap: 2em;">
    <View style="flex: 1;"><Text name="left" value="$left_text"/></View>
    <View style="flex: 1;"><Text name="right" value="$right_text"/></View>
  </View>
  <Choices name="label" toName="left" choice="single" showInline="true" required="true">
{choices}
  </Choices>
  <TextArea name="comment" toName="left" placeholder="Comment" maxSubmissions="1" editable="true"/>
</View>
"""


def read_export(path: Path, asked: AskedPairs, who: str | None = None) -> AnswerFile:
    """The answers in a project's JSON or JSON-MIN export; `who` answers where an annotation names nobody."""
    try:
        tasks = parse_json(read_text(path))
    except ValueError as error:
        raise InputError("the file is not JSON", where=str(path), why=str(error)) from error
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        remedy = "Export the project from Label Studio as JSON or JSON-MIN"
        raise InputError("the file is not a list of tasks", where=str(path), remedy=remedy)
    if tasks and not any("data" in task or "label" in task for task in tasks):  # JSON-MIN
        raise no_labels(str(path), dict.fromkeys(name for task in tasks for name in task))
    answers: dict[tuple[str, int], tuple[str, FileAnswer]] = {}
    unanswered = cancelled = 0
    for number, task in enumerate(tasks, start=1):
        data = task.get("data", task)
        place = f"{path}, task {task.get('id', number)}"
        left, right = (_key(data, side, place) for side in ("left_key", "right_key"))
        place += f", pair ({left!r}, {right!r})"
        id = asked.id(left, right, place)
        answered = False
        for annotation in _annotations(task, place):
            if annotation.get("was_cancelled"):
                cancelled += 1
                continue
            where = f"{place}, annotation {annotation.get('id', '?')}"
            text, comment = _result(annotation, where)
            if text == "":
                continue
            answered = True
            name = _annotator(annotation.get("completed_by")) or who or ""
            if not name:
                raise InputError("nobody is named for this answer", where=where, remedy="Pass `who`")
            name = person_name(name, where=where)
            when = _as_text(annotation.get("updated_at") or annotation.get("created_at"))
            new = FileAnswer(id, read_label(text, where), name, comment, where)
            before = answers.get((name, id))
            if before is None or before[0] <= when:
                answers[name, id] = (when, new)
        unanswered += not answered
    return AnswerFile(tuple(new for _, new in answers.values()), unanswered, cancelled)


def _key(data: Any, side: str, where: str) -> str:
    if not isinstance(data, Mapping) or side not in data:
        remedy = "Import into Label Studio the file that pairsieve ask wrote, as it is"
        raise InputError(f"the task has no {side!r}", where=where, remedy=remedy)
    key = data[side]
    return key if isinstance(key, str) else _as_text(key)


def _annotations(task: Mapping[str, Any], where: str) -> Iterator[Mapping[str, Any]]:
    """The annotations of a task; a row of JSON-MIN is one annotation, spread out."""
    if "data" not in task:
        result = {"choices": task.get("label"), "comment": task.get("comment")}
        same = {"id": task.get("annotation_id"), "completed_by": task.get("annotator")}
        yield {**same, "updated_at": task.get("updated_at"), "plain": result}
        return
    annotations = task.get("annotations", task.get("completions", []))  # the name before version 1.0
    if not isinstance(annotations, list) or not all(isinstance(each, dict) for each in annotations):
        remedy = "Export the project as JSON with full annotations"
        raise InputError("the task's annotations are not a list of objects", where=where, remedy=remedy)
    yield from annotations


def _result(annotation: Mapping[str, Any], where: str) -> tuple[str, str]:
    """(the choice, "" where there is none; the comment) of an annotation."""
    if "plain" in annotation:
        choices = annotation["plain"]["choices"]
        chosen = choices.get("choices", []) if isinstance(choices, dict) else choices
        chosen = chosen if isinstance(chosen, list) else [] if chosen is None else [chosen]
        words = annotation["plain"]["comment"]
    else:
        results = annotation.get("result") or []
        if not isinstance(results, list) or not all(isinstance(result, dict) for result in results):
            raise _other_shape(where)
        picked = [result for result in results if result.get("type") == "choices"]
        ours = [result for result in picked if result.get("from_name") == "label"] or picked
        chosen = _held(ours, "choices", where)
        notes = [result for result in results if result.get("type") == "textarea"]
        words = _held(notes, "text", where)
    if len(chosen) > 1:
        what = f"the annotation holds {len(chosen)} choices, {chosen!r}"
        remedy = 'Use the configuration that pairsieve ask wrote (choice="single")'
        raise InputError(what, where=where, remedy=remedy)
    comment = " ".join(map(_as_text, words)) if isinstance(words, list) else _as_text(words)
    return (_as_text(chosen[0]) if chosen else ""), comment


def _held(results: Iterable[Mapping[str, Any]], name: str, where: str) -> list[Any]:
    """The values that results of an annotation have under a name."""
    found: list[Any] = []
    for result in results:
        value = result.get("value") or {}
        held = (value.get(name) or []) if isinstance(value, dict) else None
        if not isinstance(held, list | str):
            raise _other_shape(where)
        found += [held] if isinstance(held, str) else held
    return found


def _other_shape(where: str) -> InputError:
    what, remedy = "the annotation is not as Label Studio writes it", "Export the project again, as JSON"
    return InputError(what, where=where, remedy=remedy)


def _annotator(completed_by: Any) -> str:
    """A name that stays the same from export to export: the e-mail address where given, else the number."""
    if isinstance(completed_by, dict):
        if named := completed_by.get("email") or completed_by.get("username"):
            return _as_text(named)
        completed_by = completed_by.get("id")
    return f"Label Studio user {_as_text(completed_by)}" if _as_text(completed_by) else ""


def _as_text(cell: Any) -> str:
    """A JSON value as text: whole numbers without ".0", null and NaN as ""."""
    if cell is None or cell != cell:
        return ""
    return str(int(cell) if isinstance(cell, float) and cell.is_integer() else cell).strip()
