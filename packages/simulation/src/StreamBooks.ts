import type { Chunk, Job, JobId } from "@kiln/core/domain"
import type { ChunkWrite, FencedOutcome } from "@kiln/core/ports"
import { sameValue } from "@kiln/conformance/model"
import type { Coverage } from "./Coverage.ts"
import type { Kernel } from "./Kernel.ts"
import { beginsAgain, chunksOf, narration } from "./messageKinds.ts"
import type { Watch } from "./Watch.ts"

/** Keeps the books on chunks: one that was stored never changes, readers get exactly those, and the stream of a done job is complete. */
export class StreamBooks {
  readonly #kernel: Kernel
  readonly #watch: Watch
  readonly #coverage: Coverage
  /** Reads the chunks of a job, past every fault. */
  readonly #stored: (jobId: JobId) => ReadonlyArray<Chunk>
  readonly #known = new Map<JobId, ReadonlyArray<Chunk>>()
  /** Jobs whose chunks were deleted. */
  readonly #erased = new Set<JobId>()

  constructor(kernel: Kernel, watch: Watch, coverage: Coverage, stored: (jobId: JobId) => ReadonlyArray<Chunk>) {
    this.#kernel = kernel
    this.#watch = watch
    this.#coverage = coverage
    this.#stored = stored
    watch.onAppended((items, outcomes) => this.#appended(items, outcomes))
    watch.onMoved((event, before, after) => {
      if (event === "completed" && after !== undefined) this.#completed(after)
      if (before !== undefined && (after === undefined || event === "erased")) this.#gone(before.id)
    })
  }

  /** A reader got a chunk of a stream. */
  read(jobId: JobId, chunk: Chunk): void {
    const known = this.#known.get(jobId)?.[chunk.index]
    if (!sameValue(known, chunk))
      this.#kernel.violate(
        "a chunk that was read never changes",
        `${jobId}: ${JSON.stringify(chunk)}, and ${JSON.stringify(known)} is stored`,
      )
  }

  /** A reader was told that a stream is over after this many chunks. */
  ended(jobId: JobId, count: number): void {
    const job = this.#watch.jobs.get(jobId)
    if (job === undefined || this.#erased.has(jobId)) return
    const stored = this.#known.get(jobId)?.length ?? 0
    if (job.finishedAt === null) this.#kernel.violate("a stream ends with its job", `${jobId} is ${job.status}`)
    if (count !== stored)
      this.#kernel.violate(
        "the stream of a finished job is complete",
        `${jobId}: ${count} of ${stored} chunks were read`,
      )
    if (count > 0) this.#coverage.note("a stream is read to its end")
  }

  #appended(items: ReadonlyArray<ChunkWrite>, outcomes: ReadonlyArray<FencedOutcome>): void {
    const expected = new Map<JobId, ReadonlyArray<Chunk>>()
    for (const [at, { attempt, first, jobId, values }] of items.entries()) {
      const before = expected.get(jobId) ?? this.#known.get(jobId) ?? []
      // The watch has checked that the claim was valid.
      const isWritten = outcomes[at] === "Written"
      const written = isWritten ? values.map((value, place) => ({ index: first + place, attempt, value })) : []
      const added = written.filter(({ index }) => index >= before.length)
      if (added.length < written.length) this.#coverage.note("chunks are written again after a lost answer")
      if (isWritten && attempt !== this.#watch.jobs.get(jobId)?.attempts)
        this.#kernel.violate("chunks have the number of their attempt", `${jobId}: ${attempt}`)
      expected.set(jobId, [...before, ...added])
    }
    for (const [jobId, chunks] of expected) {
      this.#areStored(jobId, chunks)
      this.#known.set(jobId, chunks)
    }
  }

  /** A job has these chunks, without gaps, or none once they were deleted. */
  #areStored(jobId: JobId, expected: ReadonlyArray<Chunk>): void {
    const stored = this.#stored(jobId)
    const chunks = this.#erased.has(jobId) ? [] : expected
    if (!sameValue(stored, chunks) || stored.some(({ index }, at) => index !== at))
      this.#kernel.violate(
        "a chunk that was read never changes",
        `${jobId}: ${JSON.stringify(stored)} are stored instead of ${JSON.stringify(chunks)}`,
      )
  }

  #completed(job: Job): void {
    const chunks = this.#known.get(job.id) ?? []
    this.#areStored(job.id, chunks)
    if (job.kind !== narration.name) return
    const request = job.request?.["text"] as string
    const again = beginsAgain(request)
    const told = again ? chunks.filter(({ attempt }) => attempt === chunks.at(-1)?.attempt) : chunks
    const expected = Array.from({ length: chunksOf(request) }, (_, n) => ({ n }))
    const values = told.map(({ value }) => value)
    if (!sameValue(values, expected))
      this.#kernel.violate("the stream of a done job is complete", `${job.id}: ${JSON.stringify(chunks)}`)
    if (new Set(chunks.map(({ attempt }) => attempt)).size > 1)
      this.#coverage.note(again ? "a stream begins again in a later attempt" : "a stream goes on in a later attempt")
  }

  #gone(jobId: JobId): void {
    this.#erased.add(jobId)
    if (this.#stored(jobId).length > 0) this.#kernel.violate("deleted data is unreachable", `${jobId} still has chunks`)
  }
}
