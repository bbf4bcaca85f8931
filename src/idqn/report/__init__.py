"""A page that a person reads: drawn from stored results, without networks."""

from idqn.report.page import write_page

__all__ = ["write_page"]
