import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { JobId } from "@kiln/core/domain"
import type { CallerContext } from "./CallerContext.ts"

/** Reads the chunks of a job until its end. After a break, it goes on after the last chunk, often in another process. */
export const readStream = Effect.fnUntraced(function* (caller: CallerContext, jobId: JobId): Effect.fn.Return<void> {
  const { coverage, kernel } = caller
  let next = 0
  for (let isOver = false; !isOver;) {
    if (next > 0) coverage.note("a reader goes on after a break")
    const from = next
    let at = from
    const read = (engine: Parameters<Parameters<typeof caller.insist>[1]>[0]) =>
      Stream.runForEach(engine.streamChunks(jobId, from), (chunk) =>
        Effect.sync(() => {
          if (chunk.index !== at)
            kernel.violate("a stream has no gaps", `${jobId}: ${chunk.index} came instead of ${at}`)
          caller.streams.read(jobId, chunk)
          at += 1
          next = Math.max(next, at)
        }),
      )
    isOver = yield* caller.door.ask(caller.process, `stream ${jobId} from ${from}`, read).pipe(
      Effect.as(true),
      Effect.catchTag("NoAnswer", () => Effect.as(Effect.sleep(1_000), false)),
    )
    if (isOver) caller.streams.ended(jobId, at)
  }
})
