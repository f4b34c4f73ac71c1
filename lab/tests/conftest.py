"""The rules and fixtures of Evenflow's own tests hold for those of the lab, too."""

from tests.conftest import _pure, eventually, pytest_collection_modifyitems

__all__ = ["_pure", "eventually", "pytest_collection_modifyitems"]
