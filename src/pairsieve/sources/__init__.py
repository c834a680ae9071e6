"""Label sources. Each follows `contracts.LabelSource`; `check` is its conformance kit."""

from pairsieve.sources.check import check_label_source
from pairsieve.sources.truth import TruthSource

__all__ = ["TruthSource", "check_label_source"]
