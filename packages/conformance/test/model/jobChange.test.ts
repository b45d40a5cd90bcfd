import { assert, describe, expect, it } from "@effect/vitest"
import fc from "fast-check"
import type { Job } from "@kiln/core/domain"
import { jobTransitions } from "@kiln/core/rules"
import { illFormed } from "../../src/model/illFormed.ts"
import { jobChange } from "../../src/model/jobChange.ts"
import { sameValue } from "../../src/model/jobFields.ts"
import { corruptions, isAlsoLegal } from "./corruptions.ts"
import { type Move, walks } from "./walk.ts"

const fields = Object.keys(corruptions) as ReadonlyArray<keyof Job>
const copy = (job: Job | undefined): Job | undefined => structuredClone(job)
const lives = (count: number): ReadonlyArray<Move> => fc.sample(walks, { numRuns: count, seed: 1 }).flat()

const isKnownAs = ({ before, after, event, verb, now }: Move) => {
  const found = jobChange(copy(before), copy(after), now, verb)
  // A heartbeat in the millisecond of the last one, a step bought twice: nothing to be seen.
  const expected = sameValue(before, after) ? { _tag: "Unchanged" } : { _tag: "Moved", event }
  expect(found).toEqual(expected)
  const guessed = jobChange(copy(before), copy(after), now)
  expect(guessed._tag).toBe(expected._tag)
  for (const job of [before, after]) if (job !== undefined) expect(illFormed(job)).toBe(undefined)
}

describe("jobChange", () => {
  it("recognizes every move of the table", () =>
    fc.assert(
      fc.property(walks, (moves) => {
        for (const move of moves) isKnownAs(move)
      }),
      { numRuns: 500 },
    ))

  it("is tried with every row of the table", () => {
    const seen = new Set(lives(300).map((move) => move.event))
    expect([...seen].toSorted()).toEqual([...Object.keys(jobTransitions), "removed", "retried"].toSorted())
  })

  it("reports an equal job, and a missing one, as unchanged", () => {
    for (const { after, now } of lives(20)) expect(jobChange(after, copy(after), now)).toEqual({ _tag: "Unchanged" })
    expect(jobChange(undefined, undefined, 0)).toEqual({ _tag: "Unchanged" })
  })

  describe("refuses a wrong", () => {
    const moves = lives(250)
    for (const field of fields)
      it(field, () => {
        let tried = 0
        for (const { before, after, event, now, verb } of moves) {
          if (after === undefined || event === "removed") continue
          for (const value of corruptions[field](after)) {
            const corrupted: Job = { ...after, [field]: value }
            if (isAlsoLegal({ before, event, now }, corrupted, field) || sameValue(before, corrupted)) continue
            tried++
            const found = jobChange(before, corrupted, now, verb)
            assert.strictEqual(
              found._tag,
              "Illegal",
              `${event} at ${now}, ${field} is ${JSON.stringify(value)}: ${JSON.stringify({ before, after })}`,
            )
          }
        }
        expect(tried).toBeGreaterThan(100)
      })
  })

  it("refuses a move undone", () => {
    const raised = lives(200).filter(({ before, after }) => before !== undefined && after !== undefined)
    const undone = raised
      .filter(({ before, after }) => (before?.token ?? 0) < (after?.token ?? 0))
      .map(({ before, after, now }) => jobChange(after, before, now)._tag)
    expect(undone.length).toBeGreaterThan(200)
    expect(new Set(undone)).toEqual(new Set(["Illegal"]))
  })

  it("refuses two transitions in one step", () => {
    const moves = lives(200)
    // Each raised the token once: no single row raises it twice.
    const twice = moves.flatMap((one, n) => {
      const two = moves[n + 1]
      const raise = (two?.after?.token ?? 0) - (one.before?.token ?? 0)
      return one.before === undefined || two?.before === undefined || raise !== 2 ? [] : [{ one, two }]
    })
    const found = twice.map(({ one, two }) => jobChange(one.before, two.after, two.now)._tag)
    expect(found.length).toBeGreaterThan(100)
    expect(new Set(found)).toEqual(new Set(["Illegal"]))
  })

  it("refuses to lose a job that is not finished", () => {
    const jobs = lives(100).flatMap(({ after, now }) => (after === undefined ? [] : [{ after, now }]))
    const lost = (finished: boolean, verb?: string) =>
      new Set(
        jobs
          .filter(({ after }) => (after.finishedAt !== null) === finished)
          .map(({ after, now }) => jobChange(after, undefined, now, verb)._tag),
      )
    expect(lost(false)).toEqual(new Set(["Illegal"]))
    expect(lost(true)).toEqual(new Set(["Moved"]))
    expect(lost(true, "eraseJobs")).toEqual(new Set(["Illegal"]))
  })

  it("refuses the moves of another verb", () => {
    const verbs = new Set(["deleteJobs", "expireData", ...Object.values(jobTransitions).map((row) => row.verb)])
    const foreign = lives(100)
      .filter(({ before, after }) => !sameValue(before, after))
      .flatMap(({ before, after, event, now, verb }) =>
        [...verbs]
          // Deletion by age and on request are one row, and many verbs may end a last child.
          .filter((other) => other !== verb && event !== "erased" && event !== "woken")
          .map((other) => ({ event, found: jobChange(before, after, now, other) })),
      )
    // Some moves look like another's: a job that fails for being late, a deferral by nothing in the millisecond of its birth.
    const refused = foreign.filter(({ event, found }) => found._tag !== "Moved" || found.event === event)
    expect(refused.length).toBeGreaterThan(foreign.length * 0.95)
    expect(new Set(refused.map(({ found }) => found._tag))).toEqual(new Set(["Illegal"]))
  })
})
