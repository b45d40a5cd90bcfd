import type { Metric, Subject, Workload } from "./workloads/Workload.ts"

/** The figures of one subject for one metric, a value per round. */
export interface Measured {
  readonly workload: string
  readonly group: string
  readonly title: string
  readonly metric: Metric
  readonly subject: Subject
  readonly values: ReadonlyArray<number>
  /** The error of the last run that failed. */
  readonly failure?: string
}

/** The middle value, or the mean of the two in the middle. */
export const median = (values: ReadonlyArray<number>): number => {
  const sorted = values.toSorted((x, y) => x - y)
  const middle = sorted.length / 2
  const low = sorted[Math.ceil(middle) - 1] ?? Number.NaN
  return (low + (sorted[Math.floor(middle)] ?? low)) / 2
}

/** Runs a workload once for every subject, then again, each round beginning with another subject. */
export const measure = async (
  workload: Workload,
  rounds: number,
  tell: (line: string) => void,
): Promise<ReadonlyArray<Measured>> => {
  const { metrics, subjects } = workload
  const values = new Map<string, Array<number>>()
  const failures = new Map<string, string>()
  for (let round = 0; round < Math.min(rounds, workload.mostRounds ?? rounds); round += 1) {
    for (let index = 0; index < subjects.length; index += 1) {
      const subject = subjects[(index + round) % subjects.length]
      if (subject === undefined) continue
      try {
        const figures = await workload.run(subject)
        for (const { key } of metrics) {
          const figure = figures[key]
          const name = `${key}\0${subject.name}`
          if (figure !== undefined) values.set(name, [...(values.get(name) ?? []), figure])
        }
      } catch (error) {
        const message = error instanceof Error ? error.message : String(error)
        failures.set(subject.name, message)
        tell(`${workload.id}: ${subject.name} failed: ${message}`)
      }
    }
  }
  return metrics.flatMap((metric) =>
    subjects.map((subject): Measured => {
      const failure = failures.get(subject.name)
      return {
        workload: workload.id,
        group: workload.group,
        title: workload.title,
        metric,
        subject,
        values: values.get(`${metric.key}\0${subject.name}`) ?? [],
        ...(failure !== undefined && { failure }),
      }
    }),
  )
}
