/** A small line without axes. */
export const Sparkline = ({ label, values }: { readonly values: ReadonlyArray<number>; readonly label: string }) => {
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
    </svg>
  )
}
