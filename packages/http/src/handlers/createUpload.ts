import * as Effect from "effect/Effect"
import { UploadRequest } from "@kiln/core/effect"
import { type BodyBroken, readJsonObject } from "../server/body.ts"
import { asStep, jsonReply, type Refusal, type Reply } from "../server/Exchange.ts"
import type { Handler } from "../server/app.ts"
import { signUpload } from "../wire/SignedUrls.ts"
import { fieldNames } from "./fieldNames.ts"
import type { HandlerContext } from "./HandlerContext.ts"
import { refusalFor } from "./refusalFor.ts"

const names = fieldNames(Object.keys(UploadRequest.fields))

/** Announces a file and returns the URL to send it to. */
export const createUpload = (context: HandlerContext): Handler =>
  Effect.fnUntraced(function* (exchange, _, clock): Effect.fn.Return<Reply, Refusal | BodyBroken> {
    const grant = yield* asStep(context.admit(exchange, "audio.create", "upload", clock))
    const body = yield* readJsonObject(exchange)
    yield* asStep(context.confirm(exchange, clock))
    const announced = context.engine.createUpload(grant, names.toRequest(body))
    const upload = yield* Effect.mapError(announced, (error) =>
      error._tag === "InvalidRequest" ? names.refuse(error.errors) : refusalFor(error),
    )
    // Whole seconds, rounded down: the URL never promises more than the record behind it.
    const expiresAtSeconds = Math.floor(upload.expiresAt / 1000)
    return jsonReply(201, {
      id: upload.id,
      upload_url: signUpload(context.keyring, {
        publicUrl: context.publicUrl(),
        uploadId: upload.id,
        expiresAtSeconds,
      }),
      method: "PUT",
      expires_at: new Date(expiresAtSeconds * 1000).toISOString().replace(".000Z", "Z"),
      max_bytes: context.engine.settings.upload.maxBytes,
    })
  })
