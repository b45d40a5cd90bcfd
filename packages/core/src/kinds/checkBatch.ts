import { type OptionNames, requireNumber, requireOptions } from "../domain/index.ts"
import type { BatchOptions } from "./KindDefinition.ts"

const batchNames: OptionNames<BatchOptions> = { size: true, waitMs: true }

/** Parts of an attempt, which a job of a batch does not have. */
const withoutBatch = ["files", "upload", "providers", "orProviders"] as const

const maxSize = 1_000
const maxWaitMs = 60_000

interface Given {
  readonly batch?: unknown
  readonly limits?: unknown
  readonly files?: unknown
  readonly upload?: unknown
  readonly providers?: unknown
  readonly orProviders?: unknown
}

/** Throws `TypeError` for an invalid `batch` of a kind, or one together with options that it excludes. */
export const checkBatch = (place: string, given: Given): void => {
  const { batch, limits } = given
  if (batch === undefined) return
  requireOptions(`batch of ${place}`, batch, batchNames)
  const { size, waitMs } = batch as Partial<Record<keyof BatchOptions, unknown>>
  requireNumber(`${place}: batch.size`, size, { least: 1, most: maxSize, whole: true })
  requireNumber(`${place}: batch.waitMs`, waitMs, { least: 0, most: maxWaitMs })
  const excluded = withoutBatch.find((name) => given[name] !== undefined)
  if (excluded !== undefined)
    throw new TypeError(`${place}: a kind with batch cannot have ${excluded}: run gets several jobs at once`)
  const concurrency = (limits as { readonly concurrency?: number } | undefined)?.concurrency
  if (concurrency !== undefined && Number(size) > concurrency)
    throw new TypeError(
      `${place}: batch.size must be at most limits.concurrency, ${concurrency}, not ${String(size)}: each job of a batch counts`,
    )
}
