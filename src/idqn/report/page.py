"""The page: one file that opens from disk, offline, on a desk and on a phone."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, PackageLoader
from markupsafe import Markup, escape

from idqn import __version__
from idqn.errors import UserError
from idqn.explain.results import About, Result
from idqn.report.figures import FIGURES
from idqn.report.section import Section
from idqn.run_dir import RunDir, write_atomically

FINDINGS = 3


class Stored(NamedTuple):
    """The results of a run that are about the same agent."""

    results: dict[str, Result]
    missing: dict[str, str]  # by kind, why


def stored(run: RunDir, about: About, missing: Mapping[str, str] | None = None) -> Stored:
    """What the run has about this agent; results about other checkpoints stay where they are."""
    results: dict[str, Result] = {}
    absent = dict(missing or {})
    for figure in FIGURES:
        kind = figure.result.kind
        if not run.explanation(kind).is_file():
            continue
        try:
            result = figure.result.load(run)
        except UserError as error:
            absent[kind] = str(error)
            continue
        if result.about == about:
            results[kind] = result
            absent.pop(kind, None)
        else:
            absent[kind] = (
                f"what is stored is about {result.about.frames:,} frames of "
                f"{result.about.run}, not {about.frames:,} of {about.run}; "
                f"`idqn explain {run.path} --checkpoint {about.frames} --only NAME` makes it anew"
            )
    return Stored(results, absent)


def write_page(run: RunDir, about: About, missing: Mapping[str, str] | None = None) -> Path:
    """Draw everything that is stored about an agent; `missing` says what could not be found out,
    and why."""
    results, absent = stored(run, about, missing)
    if not results:
        # of what was asked for; what else lies there is about another checkpoint anyway
        told = missing or absent
        reasons = "; ".join(f"{kind}: {reason}" for kind, reason in told.items())
        raise UserError(f"nothing was found out about '{run.path}' ({reasons or 'no results'})")
    sections = [f.section(results[f.result.kind]) for f in FIGURES if f.result.kind in results]
    html = render(about, sections, absent)
    for section in sections:
        for name, content in section.files.items():
            write_atomically(run.report.with_name(name), content)
    write_atomically(run.report, html.encode())
    return run.report


def render(about: About, sections: list[Section], missing: Mapping[str, str]) -> str:
    scripts = dict.fromkeys(["page.js", *(s.script for s in sections if s.script)])
    environment = Environment(loader=PackageLoader("idqn.report"), autoescape=True)
    environment.filters["code"] = _code
    return environment.get_template("page.html.j2").render(
        about=about,
        game=about.env.split("/")[-1].rsplit("-v", 1)[0],
        sections=sections,
        findings=telling(sections) if len(sections) > 1 else [],  # not the same twice
        missing=_by_reason(missing),
        style=_template("style.css"),
        scripts=[_template(name) for name in scripts],
        data={section.kind: _json(section.data) for section in sections if section.data},
        version=__version__,
        made=datetime.now(UTC).strftime("%d %B %Y, %H:%M UTC"),
    )


def telling(sections: list[Section]) -> list[Section]:
    """Those with the findings that are most worth knowing, in the order of the page."""
    said = [section for section in sections if section.finding]
    best = sorted(said, key=lambda section: -section.weight)[:FINDINGS]
    return [section for section in said if section in best]


def _by_reason(missing: Mapping[str, str]) -> list[tuple[str, list[str]]]:
    """One reason often keeps several explanations from being made."""
    reasons = dict.fromkeys(missing.values())
    return [(reason, [k for k, why in missing.items() if why == reason]) for reason in reasons]


def _code(text: str) -> Markup:
    """What is to be typed stands between backticks, as in messages of the command line."""
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _template(name: str) -> str:
    return resources.files("idqn.report").joinpath("templates", name).read_text("utf-8")


def _json(data: object) -> str:
    """That no text in it can end the <script> it stands in."""
    return json.dumps(data, allow_nan=False).replace("<", "\\u003c")
