import * as Effect from "effect/Effect"
import { KindUnknown } from "../domain/Errors.ts"
import { JobDirectory, Switchboard } from "../ports/index.ts"

/**
 * Returns every kind that this installation knows: those of this process, those of stored jobs, paused ones, and those that a worker
 * serves or has served. Kinds are names in the store, so a process need not have the code of the kinds that it operates.
 */
const knownKinds = Effect.fnUntraced(function* (own: ReadonlyArray<string>) {
  const switchboard = yield* Switchboard
  const stored = yield* (yield* JobDirectory).listKinds
  const { lastServedAt, pausedKinds } = yield* switchboard.readBoard
  const published = (yield* switchboard.listWorkers).flatMap(({ liveKinds, scope }) => [
    ...liveKinds,
    ...(scope?.kinds.map(({ kind }) => kind) ?? []),
  ])
  return [...new Set([...own, ...stored, ...pausedKinds, ...Object.keys(lastServedAt), ...published])]
})

/** Fails with `KindUnknown` for a kind that neither this process nor the installation knows. */
export const requireKnownKind = Effect.fnUntraced(function* (kind: string, own: ReadonlyArray<string>) {
  if (own.includes(kind)) return
  const known = yield* knownKinds(own)
  if (!known.includes(kind)) return yield* Effect.fail(new KindUnknown({ kind, known }))
})
