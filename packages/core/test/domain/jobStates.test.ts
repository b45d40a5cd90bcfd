import type { JobState } from "@kiln/core/domain"
import {
  applyEvent,
  created,
  isClaimable,
  isOverdue,
  overdueEvent,
  waitsSince,
  type TransitionEvent,
} from "@kiln/core/rules"
import { describe, expect, it } from "vitest"

const apply = (job: JobState, event: TransitionEvent, now: number): JobState => {
  const after = applyEvent(job, event, now)
  if (after === undefined) throw new Error(`${event.event} is not allowed`)
  return after
}

const queued = created(0, { queueLimitMs: 100, runLimitMs: 1_000 })
const claimed = apply(queued, { event: "claimed", leaseDurationMs: 50 }, 10)

describe("a finished job", () => {
  const done = apply(claimed, { event: "completed", token: claimed.token }, 20)
  const failed = apply(claimed, { event: "failed", token: claimed.token, errorCode: "internal_error" }, 20)

  it.each([done, failed])("that is $status is neither overdue nor claimable, however late it is", (job) => {
    expect(isOverdue(job, 1_000_000)).toBe(false)
    expect(isClaimable(job, 1_000_000)).toBe(false)
  })
})

describe("a heartbeat", () => {
  it.each([
    ["before the end of the lease", 59],
    ["at the end of the lease", 60],
  ])("%s changes nothing but the lease", (_, now) => {
    const extended = apply(claimed, { event: "extended", token: claimed.token, leaseDurationMs: 50 }, now)
    expect(extended).toEqual({ ...claimed, claimableAt: now + 50, deadlineAt: now + 50 + 90 })
  })
})

describe("the sweep's event for an overdue job", () => {
  it("is `lost` while a worker holds it, with the job's place in the queue", () => {
    const { deadlineAt } = claimed
    expect(overdueEvent({ ...claimed, createdAt: 7 }, deadlineAt ?? 0, undefined)).toEqual({
      event: "lost",
      createdAt: 7,
    })
  })

  it("is `expired` if nobody holds it, or if the run limit ended its lease", () => {
    expect(overdueEvent({ ...queued, createdAt: 7 }, 100, undefined)).toEqual({ event: "expired" })
    const limited = apply(queued, { event: "claimed", leaseDurationMs: 5_000 }, 10)
    expect(overdueEvent({ ...limited, createdAt: 7 }, 1_010, undefined)).toEqual({ event: "expired" })
  })

  it("is `postponed` if a job that no worker has claimed could not start before its prerequisites", () => {
    const overdue = { ...queued, createdAt: 7 }
    const limit = queued.queueLimitMs
    expect(overdueEvent(overdue, 150, 150)).toEqual({ event: "postponed", since: 150 })
    expect(overdueEvent(overdue, 150, 150 - limit + 1)).toEqual({ event: "postponed", since: 150 - limit + 1 })
    expect(overdueEvent(overdue, 150, 150 - limit)).toEqual({ event: "expired" })
    expect(overdueEvent({ ...overdue, status: "processing" }, 150, 150)).toEqual({ event: "expired" })
    expect(waitsSince([], 9)).toBe(undefined)
    expect(waitsSince([3, 5], 9)).toBe(5)
    expect(waitsSince([3, null, 5], 9)).toBe(9)
  })
})
