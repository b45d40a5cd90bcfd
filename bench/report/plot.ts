import type { Measured } from "../measure.ts"
import { headingOf, isRate, number, valueOf } from "./figures.ts"

const width = 720
const nameWidth = 170
const valueWidth = 110
const rowHeight = 22
const headHeight = 34

/** Follows the reader's light or dark mode. A page shows the plot as an image, so it has styles of its own. */
const style = `
    text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328; }
    .title { font-weight: 600; }
    .quiet { fill: #59636e; }
    .axis { stroke: #d1d9e0; }
    .peer { fill: #afb8c1; }
    .unsafe { fill: #dfe3e8; }
    .limit { fill: none; stroke: #afb8c1; stroke-dasharray: 3 2; }
    .base { fill: #80ccff; }
    .kiln { fill: #0969da; }
    @media (prefers-color-scheme: dark) {
      text { fill: #f0f6fc; }
      .quiet { fill: #9198a1; }
      .axis { stroke: #3d444d; }
      .peer { fill: #656c76; }
      .unsafe { fill: #353b43; }
      .limit { stroke: #656c76; }
      .base { fill: #1f4b8f; }
      .kiln { fill: #4493f8; }
    }`

const escaped = (text: string): string => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;")

const round = (value: number): string => value.toFixed(1).replace(/\.0$/, "")

const bar = (one: Measured, scale: number, y: number): string => {
  const value = valueOf(one)
  const length = Math.max(2, value * scale)
  return `  <text x="${nameWidth - 8}" y="${y + 15}" text-anchor="end">${escaped(one.subject.name)}</text>
  <rect class="${one.subject.role}" x="${nameWidth}" y="${y + 3}" width="${round(length)}" height="${rowHeight - 6}" rx="2"/>
  <text class="quiet" x="${round(nameWidth + length + 6)}" y="${y + 15}">${number(value)}</text>`
}

/** Draws one metric: a bar for each subject, from the same zero. */
const panel = (figures: ReadonlyArray<Measured>, top: number): string => {
  const [first] = figures
  if (first === undefined) return ""
  const most = Math.max(...figures.map((one) => valueOf(one)))
  const scale = (width - nameWidth - valueWidth) / most
  const better = isRate(first.metric) ? "more is better" : "less is better"
  const unit = first.metric.unit === "/s" ? "per second" : first.metric.unit
  const bottom = top + headHeight + figures.length * rowHeight
  return [
    `  <text class="title" x="0" y="${top + 20}">${escaped(headingOf(first))} <tspan class="quiet">${unit}, ${better}</tspan></text>`,
    ...figures.map((one, index) => bar(one, scale, top + headHeight + index * rowHeight)),
    `  <line class="axis" x1="${nameWidth}" x2="${nameWidth}" y1="${top + headHeight}" y2="${bottom}"/>`,
  ].join("\n")
}

/** Draws metrics one below the other, as SVG. Subjects that were not measured are left out. */
export const plot = (metrics: ReadonlyArray<ReadonlyArray<Measured>>, description: string): string => {
  const panels: Array<string> = []
  let top = 0
  for (const figures of metrics) {
    const measured = figures.filter(({ values }) => values.length > 0)
    if (measured.length === 0) continue
    panels.push(panel(measured, top))
    top += headHeight + measured.length * rowHeight + 10
  }
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${top}" viewBox="0 0 ${width} ${top}" role="img">
  <title>${escaped(description)}</title>
  <style>${style}
  </style>
${panels.join("\n")}
</svg>
`
}
