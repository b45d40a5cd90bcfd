import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { JobStore, periodsOf, type RetentionPublication, type RetentionRule, rulesInForce } from "@kiln/core/ports"
import { advance } from "../arrange.ts"
import { check, type Section } from "../Check.ts"

const day = 86_400_000

const rule = (kind: string, dataMs: number | null, jobsMs: number | null): RetentionRule => ({ kind, dataMs, jobsMs })

/** Publishes the rules of a process. Processes `a1` and `a2` have the same program. */
const publish = (
  publisher: string,
  rules: ReadonlyArray<RetentionRule>,
  options: Partial<Pick<RetentionPublication, "ttlMs" | "graceMs">> = {},
) =>
  Effect.flatMap(JobStore, (store) =>
    store.publishRetention({
      publisher,
      program: publisher.slice(0, 1),
      rules,
      ttlMs: 10_000,
      graceMs: 7 * day,
      ...options,
    }),
  )

const published = Effect.map(
  Effect.flatMap(JobStore, (store) => store.readRetention),
  (rules) => rules.map(({ kind, publisher, stoppedForMs }) => [kind, publisher, stoppedForMs]),
)
const inForce = Effect.map(
  Effect.flatMap(JobStore, (store) => store.readRetention),
  rulesInForce,
)

/** Retention rules that the processes with a kind publish. */
export const retentionRules: Section = {
  name: "JobStore.publishRetention, readRetention",
  checks: [
    check(
      "rules are listed by kind, then by publisher, with what they say and whether their process is running",
      Effect.gen(function* () {
        const store = yield* JobStore
        expect(yield* store.readRetention).toEqual([])
        yield* publish("b1", [rule("report", 5, null), rule("", 1, 2)])
        yield* publish("a1", [rule("report", 0, 400 * day)])
        yield* advance(9_999)
        expect(yield* store.readRetention).toEqual([
          { ...rule("", 1, 2), publisher: "b1", program: "b", stoppedForMs: null },
          { ...rule("report", 0, 400 * day), publisher: "a1", program: "a", stoppedForMs: null },
          { ...rule("report", 5, null), publisher: "b1", program: "b", stoppedForMs: null },
        ])
        yield* advance(1)
        expect(yield* published).toEqual([
          ["", "b1", 0],
          ["report", "a1", 0],
          ["report", "b1", 0],
        ])
      }),
    ),

    check(
      "of several rules the longest is in force; a kind that nobody has named is kept",
      Effect.gen(function* () {
        yield* publish("a1", [rule("report", 5, 9), rule("cpu", 4, 4), rule("", 3, 3)])
        yield* publish("b1", [rule("report", 6, 8), rule("cpu", null, 2)])
        const rules = yield* inForce
        expect(rules).toEqual([rule("", 3, 3), rule("cpu", null, 4), rule("report", 6, 9)])
        expect(periodsOf(rules)).toEqual({
          data: { others: Infinity, byKind: { cpu: Infinity, report: 6 } },
          jobs: { others: Infinity, byKind: { cpu: 4, report: 9 } },
          uploads: 3,
        })
      }),
    ),

    check(
      "a publication replaces what the same process said before, and extends its time",
      Effect.gen(function* () {
        yield* publish("a1", [rule("report", 5, 9), rule("cpu", 4, 4)])
        yield* advance(9_000)
        yield* publish("a1", [rule("report", 1, 2)])
        yield* advance(9_000)
        expect([yield* inForce, yield* published]).toEqual([[rule("report", 1, 2)], [["report", "a1", null]]])
      }),
    ),

    check(
      "a process that starts replaces those with the same program that have stopped, and no running one",
      Effect.gen(function* () {
        yield* publish("a1", [rule("report", 9, 9)])
        yield* publish("a2", [rule("report", 5, 5)])
        expect(yield* inForce).toEqual([rule("report", 9, 9)])
        yield* publish("a1", [rule("report", 9, 9)], { ttlMs: 0 })
        expect(yield* inForce).toEqual([rule("report", 9, 9)])
        yield* publish("a2", [rule("report", 5, 5)])
        expect(yield* inForce).toEqual([rule("report", 5, 5)])
      }),
    ),

    check(
      "the rule of another program that has stopped stays for the grace period",
      Effect.gen(function* () {
        yield* publish("a1", [rule("report", null, null)], { ttlMs: 0 })
        yield* advance(7 * day - 1)
        yield* publish("b1", [rule("report", 5, 5)])
        expect(yield* inForce).toEqual([rule("report", null, null)])
        yield* advance(1)
        yield* publish("b1", [rule("report", 5, 5)])
        expect(yield* inForce).toEqual([rule("report", 5, 5)])
      }),
    ),

    check(
      "the rule of a kind that no process knows any more stays for good",
      Effect.gen(function* () {
        yield* publish("a1", [rule("retired", 5, 9), rule("cpu", 1, 1)], { ttlMs: 0 })
        yield* advance(4_000 * day)
        yield* publish("b1", [rule("cpu", 2, 2)], { graceMs: 0 })
        expect(yield* inForce).toEqual([rule("cpu", 2, 2), rule("retired", 5, 9)])
      }),
    ),
  ],
}
