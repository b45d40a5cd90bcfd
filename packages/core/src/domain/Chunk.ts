import type { Json } from "./givenValues.ts"

/** A part of a job's result that an attempt has emitted. A chunk that was read once never changes. */
export interface Chunk {
  /** From 0, without gaps, over all attempts of the job. */
  readonly index: number
  /** The attempt that emitted it. */
  readonly attempt: number
  readonly value: Json
}

/** Maximum size of a chunk, in bytes of its JSON in UTF-8. */
export const maxChunkBytes = 65_536
/** Maximum number of chunks that a job keeps. */
export const maxChunks = 100_000
/** Maximum size of all chunks that a job keeps, in bytes of their JSON in UTF-8. */
export const maxChunksBytes = 16_777_216

/** Milliseconds between two writes of an attempt's chunks. The first chunk after a pause is written at once. */
export const chunkIntervalMs = 100
/** Maximum number of chunks in one write or read. */
export const chunksAtOnce = 500
