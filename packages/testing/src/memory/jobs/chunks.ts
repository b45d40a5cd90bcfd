import { type Chunk, isFinished, type JobId } from "@kiln/core/domain"
import { holdsClaim } from "@kiln/core/rules"
import type { ChunkPage, ChunkQuestion, ChunkTotal, ChunkWrite, FencedOutcome } from "@kiln/core/ports"
import { keep, type MemoryState } from "../MemoryState.ts"

const none: ReadonlyArray<Chunk> = Object.freeze([])

export const appendChunks = (state: MemoryState, items: ReadonlyArray<ChunkWrite>): ReadonlyArray<FencedOutcome> =>
  items.map(({ attempt, first, jobId, token, values }) => {
    const job = state.jobs.get(jobId)
    if (job === undefined || !holdsClaim(job, token)) return "LeaseLost"
    const kept = state.chunks.get(jobId) ?? none
    const added = values.map((value, place) => keep({ index: first + place, attempt, value }))
    state.chunks.set(jobId, Object.freeze([...kept, ...added.filter(({ index }) => index >= kept.length)]))
    return "Written"
  })

export const readChunks = (
  state: MemoryState,
  items: ReadonlyArray<ChunkQuestion>,
): ReadonlyArray<ChunkPage | undefined> =>
  items.map(({ from, jobId, limit }) => {
    const job = state.jobs.get(jobId)
    if (job === undefined) return undefined
    return { chunks: (state.chunks.get(jobId) ?? none).slice(from, from + limit), isFinished: isFinished(job) }
  })

export const countChunks = (state: MemoryState, jobId: JobId): ChunkTotal => {
  const kept = state.chunks.get(jobId) ?? none
  const bytes = kept.reduce((sum, { value }) => sum + new TextEncoder().encode(JSON.stringify(value)).length, 0)
  return { count: kept.length, bytes }
}
