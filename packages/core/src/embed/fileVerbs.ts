import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { isBlob, isBytes, type JobMode, requireOptions, type UploadId } from "../domain/index.ts"
import { Engine } from "../engine/index.ts"
import { callerOf, callOptions, requireMode } from "./checkOptions.ts"
import type { AbortOption, EmbeddedEngine, ProjectOption } from "./EmbeddedEngine.ts"
import type { EngineRuntime } from "./EngineRuntime.ts"
import { concat, iterated, streamOf } from "./fileBodies.ts"
import { uploadFields, verbOptions } from "./optionNames.ts"

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
          content: streamOf(body),
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
  streamFile: ({ id }, options?: AbortOption, ...rest: ReadonlyArray<unknown>) => {
    const given = () => callOptions("streamFile()", verbOptions.streamFile, options, rest).signal
    const open = async () => (await run(openedFile(id), given())).content
    return iterated(open, context, () => [closed, given()])
  },
})
