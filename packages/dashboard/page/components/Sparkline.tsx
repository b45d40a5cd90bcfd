/** A small line without axes. `marks` are the indices of values at which something happened. */
export const Sparkline = ({
  label,
  marks = [],
  values,
}: {
  readonly values: ReadonlyArray<number>
  readonly label: string
  readonly marks?: ReadonlyArray<number>
}) => {
  if (values.length < 2) return <span class="faint">–</span>
  const highest = Math.max(...values, 1)
  const step = 100 / (values.length - 1)
  const points = values.map(
    (value, index) => `${(index * step).toFixed(1)},${(22 - (value / highest) * 20).toFixed(1)}`,
  )
  return (
    <svg class="sparkline" viewBox="0 0 100 24" preserveAspectRatio="none" role="img" aria-label={label}>
      <polygon points={`0,24 ${points.join(" ")} 100,24`} />
      <polyline points={points.join(" ")} />
      {marks.map((index) => (
        <line key={index} class="mark" x1={index * step} x2={index * step} y1="0" y2="24" />
      ))}
    </svg>
  )
}
