"""The OpenAPI description of the service as one plain HTML page, without scripts."""

from __future__ import annotations

import json
from html import escape
from typing import Any

STYLE = """:root { color-scheme: light dark; font: 100%/1.5 system-ui, sans-serif; }
body { max-width: 56rem; margin: 0 auto; padding: 1rem; overflow-wrap: anywhere; }
section { border-top: 1px solid #888; padding: .5rem 0 1rem; }
h2 { font: 600 1.1rem ui-monospace, monospace; margin: .5rem 0; }
pre { overflow-x: auto; padding: .6rem; border: 1px solid #888; border-radius: .4rem; white-space: pre-wrap; }
table { border-collapse: collapse; }
td, th { text-align: left; vertical-align: top; padding: .15rem .8rem .15rem 0; }
th { white-space: nowrap; }
"""

LIMITS = {
    "minimum": "at least {:g}",
    "maximum": "at most {:g}",
    "minItems": "at least {:,}",
    "maxItems": "at most {:,}",
    "maxLength": "at most {:,} characters",
}


def page(described: dict[str, Any]) -> str:
    """The page of an OpenAPI description: every path, what to send, what comes back."""
    info = described["info"]
    schemas = described.get("components", {}).get("schemas", {})
    parts = [
        _operation(path, method, operation, schemas)
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
    ]
    title = escape(f"{info['title']} {info['version']}")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="stylesheet" href="/docs/style.css"></head><body><main>'
        f"<h1>{title}</h1><p>{escape(info.get('description', ''))}</p>"
        '<p>For programs: <a href="/openapi.json">openapi.json</a></p>'
        f"{''.join(parts)}</main></body></html>"
    )


def _operation(path: str, method: str, operation: dict[str, Any], schemas: dict[str, Any]) -> str:
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    words = f"<section><h2>{escape(method.upper())} {escape(path)}</h2>"
    words += f"<p>{escape(operation.get('description', ''))}</p>"
    if body:
        sample = json.dumps(_sample(body, schemas), indent=2, ensure_ascii=False)
        words += f"<p>Send</p><pre>{escape(sample)}</pre>{_fields(body, schemas)}"
    words += "<p>Answers</p><table>"
    for status, answer in sorted(operation.get("responses", {}).items()):
        shape = answer.get("content", {}).get("application/json", {}).get("schema") or {}
        shown = "$ref" in shape and int(status) < 300
        given = json.dumps(_sample(shape, schemas), ensure_ascii=False) if shown else ""
        cell = f"{escape(answer.get('description', ''))} <code>{escape(given)}</code>"
        words += f"<tr><th>{escape(status)}</th><td>{cell}</td></tr>"
    return words + "</table></section>"


def _fields(shape: dict[str, Any], schemas: dict[str, Any]) -> str:
    """A table of the fields of a body: name, whether it is needed, limits."""
    shape = _resolved(shape, schemas)
    rows = []
    for name, field in shape.get("properties", {}).items():
        limits = {**field, **next((f for f in field.get("anyOf", []) if f.get("type") != "null"), {})}
        default = f"default {json.dumps(field.get('default'))}"
        cell = [limits.get("type", ""), "needed" if name in shape.get("required", []) else default]
        cell += [words.format(limits[key]) for key, words in LIMITS.items() if key in limits]
        cell += [field.get("description", "")]
        rows += [f"<tr><th>{escape(name)}</th><td>{escape('; '.join(filter(None, cell)))}</td></tr>"]
    return f"<table>{''.join(rows)}</table>"


def _resolved(shape: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    name = str(shape.get("$ref", "")).rpartition("/")[2]
    return dict(schemas.get(name, shape))


def _sample(shape: dict[str, Any], schemas: dict[str, Any]) -> Any:
    """A value of a shape."""
    shape = _resolved(shape, schemas)
    if "default" in shape:
        return shape["default"]
    kind = shape.get("type")
    if kind == "object":
        return {name: _sample(field, schemas) for name, field in shape.get("properties", {}).items()}
    if kind == "array":
        return [_sample(shape.get("items", {}), schemas)]
    return {"string": "…", "number": 0.9, "integer": 1, "boolean": False}.get(str(kind))
