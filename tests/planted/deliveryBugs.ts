import type { ScheduleBug } from "./scheduleBugs.ts"

const file = "packages/core/src/worker/maintenance/deliverFinished.ts"
const calling = "  const called = yield* Effect.exit(call(handler, job, attempt)).pipe("
const confirming = "  if (Exit.isSuccess(called)) return yield* settle(null)"

/** Bugs planted into the code of deliveries, which the simulation of deliveries must report. */
export const deliveryBugs: ReadonlyArray<ScheduleBug> = [
  {
    bug: "a delivery is confirmed before the call",
    edits: [{ file, from: calling, to: `  yield* settle(null)\n${calling}` }],
  },
  { bug: "a failed call is confirmed", edits: [{ file, from: confirming, to: "  return yield* settle(null)" }] },
  {
    bug: "a successful call is not confirmed",
    edits: [{ file, from: confirming, to: "  if (Exit.isSuccess(called)) return yield* settle(1_000)" }],
  },
  {
    bug: "a claim of a delivery has no lease",
    edits: [{ file, from: "const leaseDurationMs = 60_000", to: "const leaseDurationMs = 0" }],
  },
]
