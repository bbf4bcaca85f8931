"""How each kind of result is drawn; in the order of the page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from idqn.explain.agreement import Agreement
from idqn.explain.attention import Attention
from idqn.explain.comparison import Comparison
from idqn.explain.embedding import Embedding
from idqn.explain.extra_pellet import ExtraPellet
from idqn.explain.faithfulness import Faithfulness
from idqn.explain.film import Film
from idqn.explain.ground_truth import GroundTruth
from idqn.explain.grounding import Grounding
from idqn.explain.interpolation import Interpolation
from idqn.explain.inverted_triangle import InvertedTriangle
from idqn.explain.keys import Keys
from idqn.explain.memorization import Memorization
from idqn.explain.performance import Performance
from idqn.explain.pixel_max import PixelMax
from idqn.explain.results import Result
from idqn.explain.saliency import Saliency
from idqn.explain.search import Search
from idqn.explain.surgery import Surgery
from idqn.report.figures import (
    agreement,
    attention,
    comparison,
    embedding,
    faithfulness,
    film,
    ground_truth,
    grounding,
    interpolation,
    keys,
    memorization,
    performance,
    pixel_max,
    saliency,
    search,
    surgery,
    twins,
)
from idqn.report.section import Section


class Figure(NamedTuple):
    result: type[Result]
    section: Callable[[Any], Section]


FIGURES: tuple[Figure, ...] = (
    Figure(Performance, performance.section),
    Figure(Film, film.section),
    Figure(Keys, keys.section),
    Figure(Attention, attention.section),
    Figure(Saliency, saliency.section),
    Figure(Embedding, embedding.section),
    Figure(Interpolation, interpolation.section),
    Figure(Agreement, agreement.section),
    Figure(Faithfulness, faithfulness.section),
    Figure(Grounding, grounding.section),
    Figure(GroundTruth, ground_truth.section),
    Figure(Comparison, comparison.section),
    Figure(Memorization, memorization.section),
    Figure(ExtraPellet, twins.pellet_section),
    Figure(InvertedTriangle, twins.triangle_section),
    Figure(PixelMax, pixel_max.section),
    Figure(Search, search.section),
    Figure(Surgery, surgery.section),
)
