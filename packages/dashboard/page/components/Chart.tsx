import { useEffect, useRef } from "preact/hooks"
import uPlot from "uplot"
import { count } from "@kiln/pages/ui"

export interface Series {
  readonly label: string
  /** A custom property of the stylesheet: `--good`. */
  readonly color: string
  readonly values: ReadonlyArray<number>
}

const colorOf = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim()

/** `14:03`, in the viewer's time zone. */
const clock = (at: number): string =>
  new Date(at * 1_000).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" })

/** A moment that a chart marks with a line. */
export interface Mark {
  readonly at: number
  readonly label: string
}

const drawMarks = (plot: uPlot, marks: ReadonlyArray<Mark>): void => {
  const { ctx } = plot
  const { height, top } = plot.bbox
  ctx.save()
  ctx.strokeStyle = colorOf("--faint")
  ctx.setLineDash([4, 4])
  for (const { at } of marks) {
    const x = Math.round(plot.valToPos(at, "x", true)) + 0.5
    ctx.beginPath()
    ctx.moveTo(x, top)
    ctx.lineTo(x, top + height)
    ctx.stroke()
  }
  ctx.restore()
}

const optionsFor = (width: number, series: ReadonlyArray<Series>, marks: () => ReadonlyArray<Mark>): uPlot.Options => {
  const axis = {
    stroke: colorOf("--faint"),
    grid: { stroke: colorOf("--line"), width: 1 },
    ticks: { show: false },
    font: "11px system-ui, sans-serif",
  }
  return {
    width,
    height: 150,
    padding: [8, 18, 0, 0],
    cursor: { points: { size: 6 }, y: false },
    legend: { live: true },
    hooks: { draw: [(plot) => drawMarks(plot, marks())] },
    scales: { y: { range: (_, __, highest) => [0, Math.max(4, (highest ?? 0) * 1.1)] } },
    axes: [
      {
        ...axis,
        size: 24,
        space: 70,
        incrs: [60, 300, 600, 900, 1_800, 3_600, 7_200, 14_400],
        values: (_, times) => times.map(clock),
      },
      {
        ...axis,
        size: 48,
        values: (_, values) => values.map((value) => (Number.isInteger(value) ? count(value) : "")),
      },
    ],
    series: [
      { value: (_, at) => (at == null ? "–" : clock(at)) },
      ...series.map(({ color, label }) => ({
        label,
        stroke: colorOf(color),
        fill: `color-mix(in srgb, ${colorOf(color)} 14%, transparent)`,
        width: 1.5,
        points: { show: false },
        value: (_: uPlot, value: number | null) => (value == null ? "–" : count(value)),
      })),
    ],
  }
}

/** A chart over time; `at` in unix seconds. */
export const Chart = ({
  at,
  label,
  marks,
  series,
}: {
  readonly label: string
  readonly marks: ReadonlyArray<Mark>
  readonly at: ReadonlyArray<number>
  readonly series: ReadonlyArray<Series>
}) => {
  const place = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot | undefined>(undefined)
  const data = [at, ...series.map(({ values }) => values)] as unknown as uPlot.AlignedData
  const marked = useRef(marks)
  marked.current = marks
  const shape = series.map((one) => one.label).join()
  useEffect(() => {
    const element = place.current
    if (element === null) return undefined
    const draw = (): void => {
      plot.current?.destroy()
      plot.current = new uPlot(
        optionsFor(element.clientWidth, series, () => marked.current),
        data,
        element,
      )
    }
    draw()
    const theme = matchMedia("(prefers-color-scheme: dark)")
    theme.addEventListener("change", draw)
    const resized = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: 150 }))
    resized.observe(element)
    return () => {
      theme.removeEventListener("change", draw)
      resized.disconnect()
      plot.current?.destroy()
      plot.current = undefined
    }
  }, [shape])
  useEffect(() => plot.current?.setData(data), [at, series])
  return (
    <>
      <div class="chart" ref={place} role="img" aria-label={label} />
      {marks.length > 0 && (
        <p class="faint">{marks.map((mark) => `${mark.label} since ${clock(mark.at)}`).join(", ")}</p>
      )}
    </>
  )
}
