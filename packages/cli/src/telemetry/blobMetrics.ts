import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { BlobStore } from "@kiln/core/ports"
import { counter, histogram } from "./series.ts"

const operations = counter(
  "kiln_blob_operations_total",
  "Operations of the blob store by outcome: done, refused (missing, damaged, too large, broken off) or failed",
  "operation",
  "outcome",
)
const seconds = histogram(
  "kiln_blob_operation_duration_seconds",
  "Duration of operations of the blob store. That of put includes the arrival of the content",
  [0.001, 0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 60],
  "operation",
)
const written = counter("kiln_blob_written_bytes_total", "Bytes of blobs that this process has stored")

const outcomeOf = (exit: Exit.Exit<unknown, unknown>): string => {
  if (Exit.isSuccess(exit)) return "done"
  const error = Option.getOrUndefined(Exit.findErrorOption(exit)) as { readonly _tag?: string } | undefined
  return error === undefined || error._tag === "BlobUnavailable" ? "failed" : "refused"
}

const measured = <A, E, R>(operation: string, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Clock.clockWith((clock) => {
    const beganAt = clock.monotonicTimeNanosUnsafe()
    return Effect.onExit(effect, (exit) =>
      Effect.sync(() => {
        operations.record([operation, outcomeOf(exit)], 1)
        seconds.record([operation], Number(clock.monotonicTimeNanosUnsafe() - beganAt) / 1e9)
      }),
    )
  })

/** Provides the blob store again, with its operations measured. */
export const layerMeasuredBlobs: Layer.Layer<BlobStore, never, BlobStore> = Layer.effect(
  BlobStore,
  Effect.map(BlobStore, (store) => {
    // The series of failures begin at 0, so that the first ones are visible as an increase.
    for (const operation of ["put", "open", "remove"]) operations.record([operation, "failed"], 0)
    return BlobStore.of({
      ...store,
      put: (key, content, options) =>
        Effect.map(measured("put", store.put(key, content, options)), (info) => {
          written.record([], info.bytes)
          return info
        }),
      open: (key, range) => measured("open", store.open(key, range)),
      remove: (prefix) => measured("remove", store.remove(prefix)),
    })
  }),
)
