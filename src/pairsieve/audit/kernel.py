"""Compiled loop over the pieces of a ranking; imported when first needed, as numba loads slowly."""

from __future__ import annotations

import numba


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator,unused-ignore]
def average_precisions(unlabelled, owner, spread, points, before, width, logs, tied, out):  # type: ignore[no-untyped-def]
    """out (r,) = AP of each row of unlabelled matches by stratum (r, k), spread over the pieces (g,); nan
    without a match. The formulas: `Layout.average_precision`. logs (g,) = log(1 + width / (before + ½)).
    tied (g,): the pairs of a piece have one score, and its matches the precision at its end.
    """
    for row in range(len(out)):
        ahead, total, stratum, earlier = 0.0, 0.0, -1, 0.0
        for piece in range(len(owner)):
            if owner[piece] != stratum:
                stratum, earlier = owner[piece], 0.0
            hidden, share = unlabelled[row, stratum] * spread[piece], spread[piece]
            first, pairs = before[piece] + 0.5, width[piece]
            slope = min(hidden / pairs, 1.0)
            # A match counts whole where it is. The others of its stratum lie elsewhere, one fewer.
            middle, one = earlier + share / 2.0, min(unlabelled[row, stratum], 1.0)
            itself = 1.0 - one * middle - (hidden - one * share) / pairs * (0.5 - middle)
            earlier += share
            if tied[piece]:
                others = ahead + points[piece] + hidden
                total += hidden * min((others + 1.0 - one * earlier) / (before[piece] + pairs), 1.0)
                ahead = others
                total += points[piece] * min(ahead / (before[piece] + pairs), 1.0)
                continue
            mean = slope + (ahead + itself - slope * first) / pairs * logs[piece]
            total += hidden * min(max(mean, 0.0), 1.0)
            ahead += hidden + points[piece]
            total += points[piece] * min(ahead / (before[piece] + pairs), 1.0)
        out[row] = total / ahead if ahead > 0.0 else float("nan")
