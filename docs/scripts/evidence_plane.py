"""Draw docs/images/evidence-plane.svg: the plane of evidence, its prototypes, and one node of `digits`.

python docs/scripts/evidence_plane.py
"""

from __future__ import annotations

import math
from html import escape
from pathlib import Path

import numpy as np

import hpn

FILE = Path(__file__).resolve().parents[1] / "images" / "evidence-plane.svg"
WIDTH, HEIGHT, RADIUS, CENTER = 800, 440, 175, (205, 220)
SHORT = ("own features", "up to 2 hops", "up to 3 hops", "means, own", "means, 1 hop", "means, 2 hops", "nodes nearby")


def at(angle: float, radius: float = RADIUS) -> tuple[float, float]:
    """Neutral points to the right, evidence for a class upwards."""
    return CENTER[0] + radius * math.cos(angle), CENTER[1] - radius * math.sin(angle)


def main() -> None:
    digits = hpn.load_dataset("digits")
    y = digits.y.numpy()
    train = np.arange(len(y)) % 3 > 0
    model = hpn.HPNClassifier().fit(digits, train, y[train])
    rest = np.flatnonzero(~train)
    probability = np.sort(model.predict_proba(digits, rest), axis=1)
    node = int(rest[np.argmin(abs(probability[:, -1] - 0.9))])  # one that is not quite clear
    story = model.explain(digits, [node])[0]
    plane = model.network_.planes["atomic"]
    FILE.write_text(draw(story, plane, model.prototype_counts_["atomic"]))
    print(f"wrote {FILE.name}: node {node}\n{story}")


def draw(story, plane, founded: int) -> str:
    body = [f'<circle cx="{CENTER[0]}" cy="{CENTER[1]}" r="{RADIUS}" class="ring"/>']
    for position in range(plane.size):
        x, y = at(plane.angle(position))
        half = "lattice" if abs(math.remainder(plane.angle(position), 2 * math.pi)) < math.pi / 2 else "unused"
        body.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.6" class="{half}"/>')
    for angle, text, anchor in (
        (0.0, "b: neutral", "start"),
        (math.pi / 2, "a: for the class", "middle"),
        (-math.pi / 2, "against the class", "middle"),
    ):
        (x1, y1), (x2, y2) = at(angle, 0), at(angle, RADIUS - 14)
        body.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="axis"/>')
        x, y = at(angle, RADIUS + 16) if angle else (at(0, RADIUS - 75)[0], CENTER[1] - 12)
        body.append(f'<text x="{x:.1f}" y="{y + 4:.1f}" text-anchor="{anchor}">{text}</text>')
    rows = []
    for bank in story.banks:
        name = SHORT[list(hpn.learners.hpn.evidence.BANKS).index(bank.bank)]
        rows.append((plane.angle(bank.prototype), "first", name, bank))
        rows.append((plane.angle(bank.runner_up_prototype), "second", name, bank))
    for angle, kind, _, bank in rows:
        x, y = at(angle)
        size = 4 + 10 * bank.weight**0.5
        body.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size:.1f}" class="{kind}"/>')
    left, top = 480, 90
    body.append(
        f'<text x="{left}" y="{top - 22}" class="head">one image of a {story.predicted}: atomic prototypes</text>'
    )
    body.append(f'<text x="{left}" y="{top}" class="small">bank of evidence</text>')
    for column, text in ((190, "weight"), (232, f"for {story.predicted}"), (275, f"for {story.runner_up}")):
        body.append(f'<text x="{left + column}" y="{top}" class="small" text-anchor="end">{text}</text>')
    for line, bank in enumerate(story.banks, start=1):
        name = SHORT[list(hpn.learners.hpn.evidence.BANKS).index(bank.bank)]
        row = top + 22 * line
        cells = ((0, name, "start"), (190, f"{bank.weight:.0%}", "end"), (232, f"{bank.prototype:+d}", "end"))
        for offset, text, anchor in (*cells, (275, f"{bank.runner_up_prototype:+d}", "end")):
            body.append(f'<text x="{left + offset}" y="{row}" text-anchor="{anchor}">{escape(text)}</text>')
    row = top + 22 * (len(story.banks) + 2)
    for text in (
        f"node level {story.node_prototype:+d}, class level {story.class_prototype:+d}: {story.membership}",
        f"predicted: {story.predicted} ({story.probability:.0%}), "
        f"next: {story.runner_up} ({story.runner_up_probability:.0%})",
        f"{plane.size} possible angles, so at most {plane.size} prototypes",
        f"{founded} are in use, by all 10 classes",
    ):
        body.append(f'<text x="{left}" y="{row}">{text}</text>')
        row += 22
    style = """
    text { font: 13px system-ui, sans-serif; fill: #222 } .head { font-weight: 600 }
    .small { fill: #666; font-size: 12px }
    .ring { fill: none; stroke: #ccc } .axis { stroke: #999; stroke-dasharray: 3 3 }
    .lattice { fill: #777 } .unused { fill: #ddd }
    .first { fill: #0072b2; fill-opacity: .55 } .second { fill: none; stroke: #d55e00; stroke-width: 2 }
    @media (prefers-color-scheme: dark) { text { fill: #ddd } .small { fill: #aaa } .ring { stroke: #555 }
      .lattice { fill: #aaa } .unused { fill: #444 } .axis { stroke: #777 } }"""
    label = "The plane of evidence: candidate angles on a circle, and one node's prototypes for two classes"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'role="img" aria-label="{label}">'
        f"<style>{style}</style>{''.join(body)}</svg>\n"
    )


if __name__ == "__main__":
    main()
