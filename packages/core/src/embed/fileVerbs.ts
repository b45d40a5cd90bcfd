import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { isBlob, isBytes, type JobMode, requireOptions, type UploadId } from "../domain/index.ts"
import { Engine } from "../engine/index.ts"
import { callOptions } from "./callOptions.ts"
import { requireMode } from "./checkOptions.ts"
import { callerOf } from "./callers.ts"
import { concat } from "./concat.ts"
import type { AbortOption, EmbeddedEngine, FileBody, ProjectOption } from "./EmbeddedEngine.ts"
import { uploadFields, verbOptions } from "./optionNames.ts"
import type { EngineRuntime } from "./EngineRuntime.ts"

type CreateOptions = { readonly mode?: JobMode } & ProjectOption & AbortOption

type Verbs = Pick<EmbeddedEngine, "createUpload" | "receiveUpload" | "readFile" | "streamFile">

const openedFile = (id: string) =>
  Effect.gen(function* () {
    const engine = yield* Engine
    const file = yield* engine.findFile(id)
    return { file, ...(yield* engine.openFile(file)) }
  })

export const fileVerbs = ({ closed, context, run }: EngineRuntime, defaultMode: JobMode): Verbs => ({
  createUpload: async (upload, options?: CreateOptions, ...rest: ReadonlyArray<unknown>) => {
    const given = callOptions("createUpload()", verbOptions.createUpload, options, rest)
    requireOptions("createUpload()", upload, uploadFields)
    const { mode = defaultMode, project, signal } = given
    requireMode(mode)
    return run(
      Effect.gen(function* () {
        const engine = yield* Engine
        const { expiresAt, format, id } = yield* engine.createUpload(callerOf(mode, project, []), upload)
        return { id, format, expiresAt: new Date(expiresAt), maxBytes: engine.settings.upload.maxBytes }
      }),
      signal,
    )
  },
  receiveUpload: async (upload, contentType, body, options = {}) => {
    requireOptions("receiveUpload()", options, verbOptions.receiveUpload)
    return run(
      Effect.flatMap(Engine, (engine) =>
        engine.receiveUpload({
          uploadId: (typeof upload === "string" ? upload : upload.id) as UploadId,
          contentType,
          contentLength: isBytes(body) ? body.length : isBlob(body) ? body.size : undefined,
          content: contentOf(body),
        }),
      ),
      options.signal,
    )
  },
  readFile: async ({ id }, options?: AbortOption, ...rest: ReadonlyArray<unknown>) => {
    const { signal } = callOptions("readFile()", verbOptions.readFile, options, rest)
    return run(
      Effect.gen(function* () {
        const { content, file } = yield* openedFile(id)
        return concat(yield* Stream.runCollect(content), file.bytes)
      }),
      signal,
    )
  },
  streamFile: ({ id }, options?: AbortOption, ...rest: ReadonlyArray<unknown>) => ({
    async *[Symbol.asyncIterator]() {
      const { signal } = callOptions("streamFile()", verbOptions.streamFile, options, rest)
      const either = signal === undefined ? closed : AbortSignal.any([closed, signal])
      const { content } = await run(openedFile(id), signal)
      const pieces = Stream.toAsyncIterableWith(content, context)[Symbol.asyncIterator]()
      try {
        for (;;) {
          const piece = await orAborted(pieces.next(), either)
          if (piece.done === true) return
          yield piece.value
        }
      } finally {
        // Not awaited: a stalled read must not delay a caller that stops reading.
        void Promise.resolve(pieces.return?.()).catch(() => undefined)
      }
    },
  }),
})

/** Returns the promise's value, unless the signal aborts first. */
const orAborted = <A>(promise: Promise<A>, signal: AbortSignal): Promise<A> => {
  const { promise: aborted, reject } = Promise.withResolvers<never>()
  const abort = () => reject(signal.reason)
  if (signal.aborted) abort()
  else signal.addEventListener("abort", abort, { once: true })
  return Promise.race([promise, aborted]).finally(() => signal.removeEventListener("abort", abort))
}

const contentOf = (body: FileBody): Stream.Stream<Uint8Array, unknown> => {
  if (isBytes(body)) return Stream.succeed(body)
  return Stream.fromAsyncIterable(isBlob(body) ? body.stream() : body, (cause) => cause)
}
