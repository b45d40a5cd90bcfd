/** A metric with labels. */
export interface MetricFamily {
  /** Records a value in the series with these values of the labels, in the order of their names. */
  readonly record: (values: ReadonlyArray<string>, value: number) => void
}

/** Makes metrics of some backend. The values of labels come from a bounded set. */
export interface MetricFamilies {
  /** `record` adds to a counter. */
  readonly counter: (name: string, description: string, ...labels: ReadonlyArray<string>) => MetricFamily
  /** `record` sets a gauge. */
  readonly gauge: (name: string, description: string, ...labels: ReadonlyArray<string>) => MetricFamily
  /** `boundaries` are the upper bounds of the buckets, inclusive and in order. */
  readonly histogram: (
    name: string,
    description: string,
    boundaries: ReadonlyArray<number>,
    ...labels: ReadonlyArray<string>
  ) => MetricFamily
}
