import { watchOthers } from "./othersCpu.ts"
import type { Figures, Metric, Subject, Workload } from "./workloads/Workload.ts"

/** The figures of one subject for one metric, a value per round. */
export interface Measured {
  readonly workload: string
  readonly group: string
  readonly title: string
  readonly metric: Metric
  readonly subject: Subject
  readonly isRealistic: boolean
  /** Whether other programs took more than `calm` of the machine in one of its rounds, also when that was repeated. */
  readonly isDisturbed: boolean
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

/** The share of the machine that other programs may take without changing a figure. */
const calm = 0.03

/** Runs a subject, and once more if other programs took part of the machine; the calmer run counts. */
const runCalmly = async (
  workload: Workload,
  subject: Subject,
  tell: (line: string) => void,
  watch: typeof watchOthers,
) => {
  const once = async (): Promise<{ readonly figures: Figures; readonly others: number }> => {
    const others = watch()
    const figures = await workload.run(subject)
    return { figures, others: others?.share() ?? 0 }
  }
  const first = await once()
  if (first.others <= calm) return { ...first, isDisturbed: false }
  const second = await once()
  const [calmer] = [first, second].toSorted((one, other) => one.others - other.others)
  const { figures, others } = calmer ?? first
  tell(
    `${workload.id}: ${subject.name} was repeated: others took ${(first.others * 100).toFixed(0)} %, then ${(second.others * 100).toFixed(0)} %`,
  )
  return { figures, isDisturbed: others > calm }
}

/** Runs a workload once for every subject, then again, each round beginning with another subject. */
export const measure = async (
  workload: Workload,
  rounds: number,
  tell: (line: string) => void,
  watch = watchOthers,
): Promise<ReadonlyArray<Measured>> => {
  const { metrics, subjects } = workload
  const values = new Map<string, Array<number>>()
  const failures = new Map<string, string>()
  const disturbed = new Set<string>()
  for (let round = 0; round < Math.min(rounds, workload.mostRounds ?? rounds); round += 1) {
    for (let index = 0; index < subjects.length; index += 1) {
      const subject = subjects[(index + round) % subjects.length]
      if (subject === undefined) continue
      try {
        const { figures, isDisturbed } = await runCalmly(workload, subject, tell, watch)
        if (isDisturbed) disturbed.add(subject.name)
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
        isRealistic: workload.isRealistic === true,
        isDisturbed: disturbed.has(subject.name),
        values: values.get(`${metric.key}\0${subject.name}`) ?? [],
        ...(failure !== undefined && { failure }),
      }
    }),
  )
}
