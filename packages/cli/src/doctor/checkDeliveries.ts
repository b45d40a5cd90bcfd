import * as Effect from "effect/Effect"
import type { StoreUnavailable } from "@kiln/core/domain"
import type { DeliveryCount, StoreInspection } from "@kiln/core/ports"
import { ageText, type Check, counted, graded, type GradedFinding } from "./Check.ts"

const name = "deliveries"
/** Workers look for deliveries every 5 seconds, and a lease ends after a minute. */
const lateMs = 300_000

type Found = ReadonlyArray<GradedFinding & { readonly remedy: string }>

const findingsOf = ({ count, kind, oldestDueMs, repeated }: DeliveryCount): Found => [
  ...(oldestDueMs < lateMs
    ? []
    : [
        {
          isProblem: true,
          message: `${counted(count, "finished job")} of type ${kind} not delivered to onFinished, the first due for ${ageText(oldestDueMs)}`,
          remedy: `start a worker whose engine has onFinished for ${kind}; kiln delivery list shows the jobs`,
          details: { type: kind, waiting: String(count) },
        },
      ]),
  ...(repeated === 0
    ? []
    : [
        {
          isProblem: false,
          message: `onFinished has failed for ${counted(repeated, "job")} of type ${kind}, and is called again`,
          remedy:
            "see the log of the workers for lines that begin with onFinished failed; after ten calls a job is given up",
          details: { type: kind, repeated: String(repeated) },
        },
      ]),
]

/** Checks that finished jobs are delivered to `onFinished`. */
export const checkDeliveries = (store: StoreInspection): Effect.Effect<Check, StoreUnavailable> =>
  Effect.map(store.countDeliveries, (counts) => {
    const total = counts.reduce((sum, { count }) => sum + count, 0)
    return graded(name, counts.flatMap(findingsOf), {
      well:
        total === 0
          ? "no delivery is pending"
          : `${counted(total, "pending delivery", "pending deliveries")}, none of them late`,
      wrong: "some finished jobs are not delivered to onFinished",
    })
  })
