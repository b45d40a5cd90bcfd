import { describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import { type CallerCheck, type CallerPlace, makeBegin, type Through } from "./CallerTransactions/CallerTransaction.ts"
import { concurrent } from "./CallerTransactions/concurrent.ts"
import { spendCapsInTransactions } from "./CallerTransactions/spendCaps.ts"
import { ending } from "./CallerTransactions/ending.ts"
import { outcomes } from "./CallerTransactions/outcomes.ts"
import { signals } from "./CallerTransactions/signals.ts"
import { wakeUp } from "./CallerTransactions/wakeUp.ts"

/** An adapter that creates jobs in transactions of its caller, with one type of handle. */
export type CallerTransactionsUnderTest = {
  /** Appears in the names of the tests. */
  readonly name: string
  /** Creates a new, empty place, removed with the scope. Its store time is real time here. */
  readonly place: Effect.Effect<CallerPlace, unknown, Scope.Scope>
  /** Which verbs take these handles; default `effect`. */
  readonly through?: Through
} & (
  | { readonly concurrent: true; readonly seesOpen?: true; readonly reason?: never }
  /** Others do not see what an open transaction holds. Checks that need that are skipped with this reason. */
  | { readonly concurrent: true; readonly seesOpen: false; readonly reason: string }
  /** The database allows one writing transaction at a time. Checks that need two are skipped with this reason. */
  | { readonly concurrent: false; readonly seesOpen?: never; readonly reason: string }
)

/** All checks. */
export const callerChecks: ReadonlyArray<CallerCheck> = [
  ...ending,
  ...outcomes,
  ...concurrent,
  ...spendCapsInTransactions,
  ...wakeUp,
  ...signals,
]

/** Runs one check at a new place. */
export const runCallerCheck = (
  check: CallerCheck,
  { place, through = "effect" }: Pick<CallerTransactionsUnderTest, "place" | "through">,
): Effect.Effect<void, unknown> =>
  Effect.scoped(
    Effect.gen(function* () {
      const opened = yield* place
      const begin = yield* makeBegin(opened, through)
      yield* Effect.provide(check.run(begin, through), Layer.fresh(opened.layer))
    }),
  )

/**
 * Registers vitest tests for the requirements of an adapter's `CallerTransactions`, in real time. Call it once for each type of
 * handle.
 *
 * ```ts
 * callerTransactionsConformance({
 *   name: "a pg client",
 *   concurrent: true,
 *   place: Effect.map(newSchema, (schema) => ({
 *     layer: schema.layer,
 *     begin: async () => {
 *       const client = await pool.connect()
 *       await client.query("begin")
 *       const end = (how: string) => async () => {
 *         await client.query(how)
 *         client.release()
 *       }
 *       return { transaction: client, commit: end("commit"), rollback: end("rollback") }
 *     },
 *   })),
 * })
 * ```
 */
export const callerTransactionsConformance = (adapter: CallerTransactionsUnderTest): void => {
  describe(`${adapter.name} creates jobs in its caller's transactions`, () => {
    const skipped = (check: CallerCheck): boolean =>
      (check.concurrent && !adapter.concurrent) || (check.seesOpen === true && adapter.seesOpen === false)
    const checks = callerChecks
    for (const check of checks.filter((one) => !skipped(one))) it.live(check.name, () => runCallerCheck(check, adapter))
    for (const { name } of checks.filter(skipped))
      // Skipped because the adapter declares that its database cannot, with the reason in the name.
      it.effect.skip(`${name} (skipped: ${adapter.reason ?? ""})`, () => Effect.void)
  })
}
