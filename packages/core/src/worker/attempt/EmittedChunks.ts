import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { type Json, maxChunks } from "../../domain/index.ts"
import { chunkIntervalMs, chunksAtOnce, maxChunkBytes, maxChunksBytes } from "../../domain/Chunk.ts"
import { asJson, jsonProblem } from "../../kinds/readBySchema.ts"
import { type AttemptError, AttemptFailed, LeaseLost } from "../../kinds/AttemptContext.ts"
import { KindBug } from "../../kinds/KindBug.ts"
import type { ChunkTotal, Claim } from "../../ports/index.ts"
import type { ReportServices } from "./ProgressReports.ts"
import { retrying } from "../repeating.ts"

const utf8 = new TextEncoder()

const tooMuch = (detail: string): AttemptFailed =>
  new AttemptFailed({ errorCode: "result_invalid", retry: false, detail: `emit: ${detail}` })

/**
 * Writes what an attempt emits: the first chunk at once, and what has come meanwhile every 100 ms, together. A write that failed is
 * repeated, which changes nothing if it took place. No chunk is lost unless the process dies.
 */
export class EmittedChunks {
  readonly #services: ReportServices
  readonly #claim: Claim
  /** What is wrong with a chunk, by the schema of the kind. */
  readonly #problemOf: (chunk: Json) => string | undefined
  /** Chunks that are not known to be stored. */
  readonly #waiting: Array<Json> = []
  #stored: number
  #count: number
  #bytes: number
  #fiber: { readonly interruptUnsafe: () => void } | undefined
  #isWriting = false
  #isOver = false

  /** `kept`: what earlier attempts have emitted. */
  constructor(
    services: ReportServices,
    claim: Claim,
    problemOf: (chunk: Json) => string | undefined,
    kept: ChunkTotal = { count: 0, bytes: 0 },
  ) {
    this.#services = services
    this.#claim = claim
    this.#problemOf = problemOf
    this.#stored = this.#count = kept.count
    this.#bytes = kept.bytes
  }

  /** The number of chunks of the job, those of earlier attempts included. */
  get count(): number {
    return this.#count
  }

  /** Adds a chunk, and never waits. Throws what the attempt fails with: `KindBug` or `AttemptFailed`. */
  emit(chunk: unknown): void {
    if (this.#isOver) return
    const json = asJson(chunk)
    if (json === undefined) throw new KindBug(`emit: the chunk is not JSON. ${jsonProblem("chunk", chunk)}`)
    const value = JSON.parse(json) as Json
    const problem = this.#problemOf(value)
    if (problem !== undefined) throw new AttemptFailed({ errorCode: "result_invalid", retry: true, detail: problem })
    const bytes = utf8.encode(json).length
    if (bytes > maxChunkBytes)
      throw tooMuch(`the chunk has ${bytes} bytes of JSON; the limit is ${maxChunkBytes}. Write larger parts to files`)
    if (this.#count >= maxChunks) throw tooMuch(`the job keeps ${maxChunks} chunks already, which is the limit`)
    if (this.#bytes + bytes > maxChunksBytes)
      throw tooMuch(`the chunks of the job exceed ${maxChunksBytes} bytes of JSON, which is the limit`)
    this.#count += 1
    this.#bytes += bytes
    this.#waiting.push(value)
    if (this.#isWriting) return
    this.#isWriting = true
    this.#fiber = this.#services.fork(this.#writeAll())
  }

  /** Accepts no more chunks, and ends the writes in the background. `flush` or `writeLast` may follow. */
  end(): void {
    this.#isOver = true
    this.#fiber?.interruptUnsafe()
  }

  /** Writes what is left, through outages of the store, before a result that says that this is all. */
  get flush(): Effect.Effect<void, AttemptError> {
    return Effect.suspend(() => {
      this.end()
      return Effect.whileLoop({
        while: () => this.#waiting.length > 0,
        body: () =>
          Effect.flatMap(Effect.retry(this.#write(), retrying), (isWritten) => (isWritten ? Effect.void : lost)),
        step: () => {},
      })
    })
  }

  /** Writes what is left when the attempt ends without a result. Tries once, and never fails. */
  get writeLast(): Effect.Effect<void> {
    return Effect.suspend(() => {
      this.end()
      let isGoing = true
      return Effect.whileLoop({
        while: () => isGoing && this.#waiting.length > 0,
        body: () => Effect.exit(this.#write()),
        step: (exit) => void (isGoing = Exit.isSuccess(exit) && exit.value),
      })
    })
  }

  #writeAll(): Effect.Effect<void> {
    return Effect.suspend(() => {
      if (this.#isOver || this.#waiting.length === 0) {
        this.#isWriting = false
        return Effect.void
      }
      return Effect.exit(this.#write()).pipe(
        Effect.andThen(Effect.sleep(chunkIntervalMs)),
        Effect.andThen(Effect.suspend(() => this.#writeAll())),
      )
    })
  }

  /** Writes the first chunks that wait. Returns false if the claim is over, so that nothing can be written any more. */
  #write() {
    return Effect.suspend(() => {
      const { job, token } = this.#claim
      const values = this.#waiting.slice(0, chunksAtOnce)
      const item = { jobId: job.id, token, attempt: job.attempts, first: this.#stored, values }
      return Effect.map(this.#services.store.appendChunks([item]), ([outcome]) => {
        if (outcome !== "Written") {
          this.#isOver = true
          return false
        }
        this.#waiting.splice(0, values.length)
        this.#stored += values.length
        this.#services.events.emit({ type: "chunks", jobId: job.id })
        return true
      })
    })
  }
}

/** Emits a chunk of an attempt. */
export const emitChunk = (
  { chunks, kind }: { readonly chunks: EmittedChunks | undefined; readonly kind: { readonly name: string } },
  chunk: unknown,
): Effect.Effect<void, AttemptFailed> =>
  Effect.suspend(() => {
    if (chunks === undefined)
      return Effect.die(new KindBug(`emit: ${kind.name} declares no chunks: add the schema of one to it as chunk`))
    try {
      chunks.emit(chunk)
      return Effect.void
    } catch (error) {
      return error instanceof AttemptFailed ? Effect.fail(error) : Effect.die(error)
    }
  })

const lost = Effect.suspend(() => Effect.fail(new LeaseLost()))
