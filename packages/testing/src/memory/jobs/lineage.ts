import { idBody } from "@kiln/core/domain"
import type { StoredLineage } from "@kiln/core/ports"
import type { MemoryState } from "../MemoryState.ts"

export const readLineage = (state: MemoryState, now: number): StoredLineage => {
  const bodies = [...state.jobs.keys(), ...state.uploads.keys()].map(idBody)
  const newestId = bodies.reduce<string | null>(
    (newest, body) => (newest === null || body > newest ? body : newest),
    null,
  )
  return { ...state.lineage, now, newestId }
}

export const writeLineage = (state: MemoryState, version: number, document: string): boolean => {
  if (state.lineage.version !== version) return false
  state.lineage = { version: version + 1, document }
  return true
}
