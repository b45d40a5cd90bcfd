import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as HttpBody from "effect/http/HttpBody"
import * as HttpClient from "effect/http/HttpClient"
import type * as HttpClientError from "effect/http/HttpClientError"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import type { RefusalCode } from "../api/ErrorCatalogue.ts"
import { mediaTypes } from "../mediaTypes.ts"
import { envelopeIn } from "../errors.ts"
import type { AudioFormat, Upload } from "../wire.ts"

/** The service refused the file. */
export class UploadRefused extends Data.TaggedError("UploadRefused")<{
  readonly status: number
  readonly code: RefusalCode | "unexpected_response"
  readonly message: string
}> {}

/** Sends the file of an upload to its signed URL. It needs no API key. */
export const sendUpload = (
  upload: Pick<Upload, "upload_url">,
  file: Uint8Array | Stream.Stream<Uint8Array, unknown>,
  format: AudioFormat,
): Effect.Effect<void, UploadRefused | HttpClientError.HttpClientError, HttpClient.HttpClient> =>
  Effect.gen(function* () {
    const contentType = mediaTypes[format]
    const body = Stream.isStream(file) ? HttpBody.stream(file, contentType) : HttpBody.uint8Array(file, contentType)
    const response = yield* HttpClient.execute(HttpClientRequest.put(upload.upload_url, { body }))
    if (response.status < 300) return
    const envelope = envelopeIn(yield* response.text)
    return yield* new UploadRefused({
      status: response.status,
      code: envelope?.code ?? "unexpected_response",
      message: envelope?.message ?? `HTTP ${response.status}`,
    })
  })
