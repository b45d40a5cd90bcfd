import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { type Chunk, type JobId } from "../domain/index.ts"
import { chunksAtOnce } from "../domain/Chunk.ts"
import { type ChunkPage, type ChunkQuestion, JobStore } from "../ports/index.ts"
import { isEnd } from "./JobEvents.ts"
import { makeJobWatch } from "./JobWatch.ts"

/** A job whose record is gone has nothing that follows. */
const nothing: ChunkPage = { chunks: [], isFinished: true }

const hasNews = ({ chunks, isFinished }: ChunkPage): boolean => chunks.length > 0 || isFinished

/**
 * Returns the function that streams the chunks of a job, from an index until the job has finished. All readers of the process share one
 * watch, which the attempts of this process wake at once, and those of others as far as the store carries hints. An outage of the store
 * only delays it.
 */
export const makeStreamChunks = Effect.gen(function* () {
  const store = yield* JobStore
  const watch = yield* makeJobWatch({
    keyOf: ({ from, jobId }: ChunkQuestion) => `${jobId} ${from}`,
    isHint: (event) => event.type === "chunks" || isEnd(event),
    read: (questions) =>
      Effect.map(store.readChunks(questions), (pages) =>
        pages.map((page = nothing) => (hasNews(page) ? page : undefined)),
      ),
  })
  return (jobId: JobId, from: number): Stream.Stream<Chunk> =>
    Stream.paginate(from, (next) =>
      Effect.map(watch.next({ jobId, from: next, limit: chunksAtOnce }, Infinity), (page) => {
        const { chunks, isFinished } = page ?? nothing
        const isLast = isFinished && chunks.length < chunksAtOnce
        return [chunks, isLast ? Option.none<number>() : Option.some(next + chunks.length)] as const
      }),
    )
})
