"""Descriptions of the chart's values, for values.schema.json and README.md.

Their source is values.yaml: the comment above a key describes it. Keys that values.yaml lacks, such as the
fields of `config`, are described in the schema itself.
"""

import json
import re

WIDTH = 110
KEY = re.compile(r"(?P<indent> *)(?P<key>[A-Za-z]+):(?P<default>.*)")


def comments(text):
    """The comment above each key of values.yaml, by the path of the key."""
    found, path, above = {}, [], []
    for line in text.splitlines():
        if line.lstrip().startswith("#"):
            above.append(line.strip().lstrip("#").strip())
        elif match := KEY.fullmatch(line):
            depth = len(match["indent"]) // 2
            path = path[:depth] + [match["key"]]
            if above:
                found[".".join(path)] = " ".join(above)
            above = []
        else:
            above = []
    return found


def describe(schema, found, path=()):
    """The schema with the comments as descriptions."""
    described = {}
    for key, child in schema.get("properties", {}).items():
        at = path + (key,)
        child = describe(child, found, at)
        if text := found.get(".".join(at)):
            child = {"description": text, **{k: v for k, v in child.items() if k != "description"}}
        described[key] = child
    return {**schema, "properties": described} if described else schema


def dump(value, indent=0):
    """JSON in which everything that fits on a line is on one line."""
    line = json.dumps(value, ensure_ascii=False)
    inner = indent + 2
    if len(line) + indent <= WIDTH or not isinstance(value, (dict, list)):
        return line
    if isinstance(value, list):
        items = [dump(item, inner) for item in value]
        brackets = "[]"
    else:
        items = [f"{json.dumps(key)}: {dump(item, inner)}" for key, item in value.items()]
        brackets = "{}"
    body = ",\n".join(" " * inner + item for item in items)
    return f"{brackets[0]}\n{body}\n{' ' * indent}{brackets[1]}"


def schema(text, values):
    return dump(describe(json.loads(text), comments(values))) + "\n"


def rows(schema, defaults, path=()):
    """Path, default and description of every value that has no values below it in values.yaml."""
    for key, child in schema["properties"].items():
        if key == "global":
            continue
        at, given = path + (key,), key in defaults
        below = defaults.get(key)
        if child.get("properties") and (isinstance(below, dict) and below or key == "config"):
            if key == "config":
                yield ".".join(at), "`{}`", child["description"]
            yield from rows(child, below, at)
        else:
            default = json.dumps(below, ensure_ascii=False) if given else ""
            if len(default) > 100:
                default = "see values.yaml"
            elif default:
                default = f"`{default}`"
            text = child["description"]
            if options := child.get("enum"):
                text += " One of " + ", ".join(f"`{option}`" for option in options) + "."
            yield ".".join(at), default, text


def table(schema_text, defaults):
    lines = ["| Value | Default | Description |", "|---|---|---|"]
    for path, default, text in rows(json.loads(schema_text), defaults):
        cells = (f"`{path}`", default, text)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def between(text, marker, content):
    """The text with new content between the two comments of this marker."""
    begin, end = f"<!-- begin {marker} -->\n", f"<!-- end {marker} -->\n"
    head, rest = text.split(begin)
    return head + begin + content + end + rest.split(end)[1]
