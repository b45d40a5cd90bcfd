import { purgePauseMs } from "@kiln/core/rules"
import type { Purge } from "@kiln/core/ports"
import type { MemoryState } from "../MemoryState.ts"

const only = ({ blobPrefix }: Purge): Purge => ({ blobPrefix })

export const listPurges = (state: MemoryState, limit: number): ReadonlyArray<Purge> =>
  [...state.purges.values()].slice(0, limit).map(only)

/** Sorting is stable, so the oldest come first among those that are due at the same time. */
export const nextPurges = (state: MemoryState, limit: number, now: number): ReadonlyArray<Purge> =>
  [...state.purges.values()]
    .filter(({ dueAt }) => dueAt <= now)
    .sort((a, b) => a.failures - b.failures || a.dueAt - b.dueAt)
    .slice(0, limit)
    .map(only)

export const postponePurges = (state: MemoryState, purges: ReadonlyArray<Purge>, now: number): void => {
  for (const { blobPrefix } of purges) {
    const purge = state.purges.get(blobPrefix)
    if (purge === undefined || purge.dueAt > now) continue
    const { failures } = purge
    state.purges.set(
      blobPrefix,
      Object.freeze({ blobPrefix, failures: failures + 1, dueAt: now + purgePauseMs(failures) }),
    )
  }
}

export const hastenPurges = (state: MemoryState): void => {
  for (const [prefix, purge] of state.purges) state.purges.set(prefix, Object.freeze({ ...purge, dueAt: 0 }))
}

export const confirmPurges = (state: MemoryState, purges: ReadonlyArray<Purge>): void => {
  for (const { blobPrefix } of purges) state.purges.delete(blobPrefix)
}
