import type { ResultOf } from "../../src/api/operations.ts"
import { span } from "@kiln/pages/ui"
import { moment, secondsBetween } from "../format.ts"

type Job = ResultOf<"readJob">

interface Bar {
  readonly label: string
  readonly note: string
  readonly from: number
  readonly to: number
  readonly tone: "wait" | "bad" | "busy" | "good"
}

const ms = (time: string): number => new Date(time).getTime()

const waitNames: Readonly<Record<string, string>> = {
  children: "children",
  after: "prerequisites",
  provider: "provider",
  gate: "what its children need",
  store: "the store",
  blobs: "the blob store",
  signal: "a signal",
  sleep: "a time",
  isolation: "a turn alone",
}

/** The last attempt, which leaves no record of its own unless it fails. */
const lastAttempt = (job: Job, end: number): ReadonlyArray<Bar> => {
  const failed = job.failed_attempts.find(({ attempt }) => attempt === job.attempts)
  if (job.attempts === 0 || failed !== undefined) return []
  if (job.status === "processing" && job.held && job.phase_started_at !== null)
    return [
      { label: `attempt ${job.attempts}`, note: "running", from: ms(job.phase_started_at), to: end, tone: "busy" },
    ]
  if (job.finished_at === null) return []
  const known = job.failed_attempts.reduce((sum, { duration_seconds }) => sum + duration_seconds, 0)
  const from = Math.max(ms(job.created_at), end - Math.max(0, job.ran_seconds - known) * 1_000)
  const isDone = job.status === "done"
  return [
    {
      label: `attempt ${job.attempts}`,
      note: isDone ? "done" : (job.error_code ?? "failed"),
      from,
      to: end,
      tone: isDone ? "good" : "bad",
    },
  ]
}

/** The known parts of a job's life, in order. The time between them is waiting. */
const barsOf = (job: Job, end: number): ReadonlyArray<Bar> => {
  const attempts = job.failed_attempts.map(({ attempt, duration_seconds, error_code, started_at }): Bar => ({
    label: `attempt ${attempt}`,
    note: error_code,
    from: ms(started_at),
    to: ms(started_at) + duration_seconds * 1_000,
    tone: "bad",
  }))
  const waits = job.waits.map((wait): Bar => ({
    label:
      wait.count === 1 ? `attempt ${wait.first_attempt}` : `attempts ${wait.first_attempt} to ${wait.last_attempt}`,
    note: `waited for ${wait.subject ?? waitNames[wait.reason] ?? wait.reason}${wait.cause === null ? "" : ` (${wait.cause})`}`,
    from: ms(wait.first_at),
    to: ms(wait.last_at),
    tone: "wait",
  }))
  const known = [...attempts, ...waits, ...lastAttempt(job, end)].toSorted((one, other) => one.from - other.from)
  const first = Math.min(end, ...known.map(({ from }) => from))
  const created = ms(job.created_at)
  const waited: Bar = {
    label: "accepted",
    note: known.length === 0 ? "waits" : "waited for a worker",
    from: created,
    to: first,
    tone: "wait",
  }
  return [waited, ...known]
}

/** A job's life, drawn to scale. */
export const Timeline = ({ job }: { readonly job: Job }) => {
  const end = job.finished_at === null ? Date.now() : ms(job.finished_at)
  const start = ms(job.created_at)
  const whole = Math.max(1, end - start)
  const at = (time: number): number => Math.min(100, Math.max(0, ((time - start) / whole) * 100))
  return (
    <ol class="timeline">
      {barsOf(job, end).map((bar, index) => (
        <li key={index}>
          <span class="label">{bar.label}</span>
          <svg viewBox="0 0 100 12" preserveAspectRatio="none" aria-hidden="true">
            <rect class="track" width="100" height="12" />
            <rect class={bar.tone} x={at(bar.from)} width={Math.max(0.4, at(bar.to) - at(bar.from))} height="12" />
          </svg>
          <span class="note">
            <strong>{span((bar.to - bar.from) / 1_000)}</strong> {bar.note}
          </span>
        </li>
      ))}
      <li class="ends">
        <span class="label" />
        <span>{moment(job.created_at)}</span>
        <span>
          {job.finished_at === null ? "now" : moment(job.finished_at)}, {span(secondsBetween(job.created_at, end))}
        </span>
      </li>
    </ol>
  )
}
