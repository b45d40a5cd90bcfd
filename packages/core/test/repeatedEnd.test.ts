import type { JobState } from "@kiln/core/domain"
import {
  applyEvent,
  type ClaimEnd,
  created,
  holdsClaim,
  isRepeatedEnd,
  type TransitionEvent,
  jobTransitions,
} from "@kiln/core/rules"
import { describe, expect, it } from "vitest"

/** Everything the holder of this token can say to end its claim. */
const endsOf = (token: number): ReadonlyArray<ClaimEnd> => [
  { event: "completed", token },
  { event: "failed", token, errorCode: "internal_error" },
  { event: "failed", token, errorCode: "result_invalid" },
  { event: "deferred", token, delayMs: 1, countsAsFailure: true },
  { event: "released", token, createdAt: 0 },
]

const eventsOf = ({ token }: JobState): ReadonlyArray<TransitionEvent> => [
  { event: "claimed", leaseDurationMs: 1 },
  { event: "abandoned" },
  { event: "extended", token, leaseDurationMs: 1 },
  ...endsOf(token),
  { event: "expired" },
  { event: "erased" },
]

/** Ends of the same sort are repeats of each other, whatever else they say. */
const sortOf = (end: TransitionEvent): string =>
  end.event === "failed" ? end.errorCode : end.event === "released" ? "deferred" : end.event

interface Visit {
  readonly job: JobState
  /** What raised the token last. */
  readonly last: TransitionEvent | undefined
}

/** Visits the job after every history of this many legal events and one-millisecond pauses. */
const everyHistory = (length: number, visit: (at: Visit) => void, at?: Visit, now = 0): void => {
  const here = at ?? { job: created(0, { queueLimitMs: 3, runLimitMs: 3 }), last: undefined }
  visit(here)
  if (length === 0) return
  everyHistory(length - 1, visit, here, now + 1)
  for (const event of eventsOf(here.job)) {
    const job = applyEvent(here.job, event, now)
    if (job === undefined) continue
    const last = jobTransitions[event.event].token === "raised" ? event : here.last
    everyHistory(length - 1, visit, { job, last }, now)
  }
}

describe("a repeated end of a claim", () => {
  it("is recognized as long as nothing follows the first, in every history of nine steps", () => {
    let visits = 0
    const recognized = new Set<string>()
    const wrong: Array<unknown> = []
    everyHistory(9, ({ job, last }) => {
      visits += 1
      for (let token = -1; token <= job.token + 2; token++)
        for (const end of endsOf(token)) {
          const ended = last !== undefined && "token" in last && last.token === token && sortOf(last) === sortOf(end)
          const found = isRepeatedEnd(job, end)
          if (found !== ended || (found && holdsClaim(job, token))) wrong.push({ found, job, last, end })
          if (found) recognized.add(`${last?.event} ${end.event}`)
        }
    })
    expect(wrong).toEqual([])
    expect(visits).toBeGreaterThan(10_000)
    expect([...recognized].toSorted()).toEqual([
      "completed completed",
      "deferred deferred",
      "deferred released",
      "failed failed",
      "released deferred",
      "released released",
    ])
  })

  it("a failure with the sweep's code counts as the sweep's, because the outcome is the same", () => {
    const limits = { queueLimitMs: 100, runLimitMs: 5 }
    const held = applyEvent(created(0, limits), { event: "claimed", leaseDurationMs: 10 }, 0)
    const expired = held && applyEvent(held, { event: "expired" }, 5)
    if (expired === undefined) throw new Error("expected an expired job")
    const failing = { event: "failed", token: 1 } as const
    expect(isRepeatedEnd(expired, { ...failing, errorCode: "job_timeout" })).toBe(true)
    expect(isRepeatedEnd(expired, { ...failing, errorCode: "internal_error" })).toBe(false)
  })
})
