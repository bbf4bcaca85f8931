"""Results as JSON, for programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from idqn.reproduce.estimate import normalised
from idqn.reproduce.published import PAPER, PAPER_FRAMES, SCALES
from idqn.reproduce.results import CellResult, Results
from idqn.reproduce.verdict import judge, sentence

_ESTIMATES = ("best_100", "final_100", "evaluation", "agreement", "most_frequent")


def record(results: Results, preset: str, changes: dict[str, Any]) -> dict[str, Any]:
    study = results.study
    return {
        "study": study.name,
        "title": study.title,
        "paper": PAPER,
        "frames": results.frames,
        "paper_frames": PAPER_FRAMES,
        "preset": preset,
        "set": changes,
        "seeds": list(results.seeds),
        "measure": study.measure,
        "cells": [_cell(result, results) for result in results.cells],
        "remarks": list(results.remarks),
    }


def _cell(result: CellResult, results: Results) -> dict[str, Any]:
    cell, measure = result.cell, results.study.measure
    found = {name: result.estimate(name) for name in _ESTIMATES}
    best = found["best_100"]
    scaled = measure == "best_100" and best is not None and cell.game in SCALES
    return {
        **dict(zip(results.study.headings, cell.row, strict=True)),
        "env": cell.config.env.id,
        "agent": cell.config.agent.name,
        "published": asdict(cell.reference) if cell.reference else None,
        "estimates": {name: asdict(each) for name, each in found.items() if each is not None},
        "normalised_percent": normalised(cell.game, best.mean) if scaled and best else None,
        "verdict": judge(found[measure], cell.reference),
        "sentence": sentence(result, measure),
        "missing_seeds": list(result.missing),
        "runs": [
            {
                "run": score.run,
                "seed": score.seed,
                "frames": score.frames,
                "counted": score.reached,
                **score.values,
            }
            for score in result.scores
        ],
    }
