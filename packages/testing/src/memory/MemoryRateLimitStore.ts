import { takePortion } from "@kiln/core/domain"
import { RateLimitStore } from "@kiln/core/ports"
import type { AroundVerb } from "./mapVerbs.ts"
import { keep, type MemoryState, step } from "./MemoryState.ts"

const call = { operation: "RateLimitStore.takePortions", nature: "write" } as const

/** `around` wraps each call. */
export const makeMemoryRateLimitStore = (
  state: MemoryState,
  around: AroundVerb = (_, verb) => verb,
): RateLimitStore["Service"] =>
  RateLimitStore.of({
    takePortions: (requests) =>
      around(
        call,
        step((now) =>
          requests.map(({ bucket, ...request }) => {
            const { bucket: next, taken } = takePortion(state.rateBuckets.get(bucket), request, now)
            state.rateBuckets.set(bucket, keep(next))
            return taken
          }),
        ),
      ),
  })
