import * as Effect from "effect/Effect"
import type { JobFamily } from "@kiln/client"
import type { FieldError } from "@kiln/core/domain"
import { asStep, jsonReply, type Refusal, type Reply } from "../server/Exchange.ts"
import type { Handler } from "../server/app.ts"
import { type BodyBroken, readJsonObject } from "../server/body.ts"
import { fieldNames } from "./fieldNames.ts"
import type { HandlerContext } from "./HandlerContext.ts"
import { findJob } from "./pollJob.ts"
import { refusalFor } from "./refusalFor.ts"

const { refuse, toRequest } = fieldNames(["value"])

const problemOf = (body: Readonly<Record<string, unknown>>): FieldError | undefined => {
  const unknown = Object.keys(toRequest(body)).find((field) => field !== "value")
  if (unknown !== undefined)
    return { field: unknown, reason: "unknown_field", message: "is not a field of this request" }
  return Object.hasOwn(body, "value") ? undefined : { field: "value", reason: "required", message: "is required" }
}

/** A name that is not valid UTF-8 is passed on as it came, and refused by its characters or as unknown. */
const decoded = (segment: string): string => {
  try {
    return decodeURIComponent(segment)
  } catch {
    return ""
  }
}

/** Sends a signal to a job. Repeating the request returns the same response. */
export const signalJob = (context: HandlerContext, family: JobFamily, keyScope: string): Handler =>
  Effect.fnUntraced(function* (exchange, path, clock): Effect.fn.Return<Reply, Refusal | BodyBroken> {
    const grant = yield* asStep(context.admit(exchange, keyScope, "create", clock))
    const [id = "", segment = ""] = path.split("/")
    const body = yield* readJsonObject(exchange)
    yield* asStep(context.confirm(exchange, clock))
    yield* findJob(context, grant, { family, id }, () => undefined)
    const problem = problemOf(body)
    if (problem !== undefined) return yield* Effect.fail(refuse([problem]))
    const name = decoded(segment)
    const { keyId, mode, projectId } = grant
    const asked = { jobId: id, name, value: body["value"], owner: { keyId, mode, projectId } }
    const { isFirst } = yield* Effect.mapError(context.engine.signalJob(asked), (error) =>
      error._tag === "InvalidRequest" ? refuse(error.errors) : refusalFor(error),
    )
    return jsonReply(200, { id, name, is_first: isFirst })
  })
