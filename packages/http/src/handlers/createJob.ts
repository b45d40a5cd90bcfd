import * as Effect from "effect/Effect"
import type { Job } from "@kiln/core/domain"
import type { BodyBroken } from "../server/body.ts"
import type { Exchange } from "../server/Exchange.ts"
import { readJsonObject } from "../server/jsonBody.ts"
import { Refusal } from "../server/Refusal.ts"
import { jsonReply, type Reply } from "../server/Reply.ts"
import type { Handler } from "../server/Router.ts"
import { parseIdempotencyKey } from "../wire/IdempotencyKey.ts"
import type { HandlerContext } from "./HandlerContext.ts"
import { pollingPath } from "./jobBodies.ts"
import type { OfferedKind } from "./offerKinds.ts"
import { refusalFor } from "./refusalFor.ts"

/** Creates a job of one kind. A repeated request gets the job created by the first. */
export const createJob = (context: HandlerContext, { family, kind, names, route }: OfferedKind): Handler =>
  Effect.fnUntraced(function* (exchange): Effect.fn.Return<Reply, Refusal | BodyBroken> {
    const grant = yield* context.admit(exchange, kind.keyScope, "create")
    const body = yield* readJsonObject(exchange)
    yield* context.confirm(exchange)
    const key = yield* idempotencyKey(exchange)
    const { requireLiveWorker } = context
    const accepted = context.engine.createJob(grant, kind, names.toRequest(body), key, { requireLiveWorker })
    const { job, replayed } = yield* Effect.mapError(accepted, (error) => {
      if (error._tag === "InvalidRequest") return names.refuse(error.errors)
      return refusalFor(error, error._tag.startsWith("Upload") ? route.upload : undefined)
    })
    exchange.createdJobId = job.id
    return jsonReply(202, createdBody(job), {
      location: context.publicUrl() + pollingPath(family, job.id),
      "retry-after": "2",
      ...(replayed && { "idempotency-replayed": "true" }),
    })
  })

/** Returns the body of a new job. A replay returns the same, whatever the job's state. */
const createdBody = (job: Job) => ({
  id: job.id,
  object: "job",
  type: job.kind,
  mode: job.mode,
  status: "queued",
})

const idempotencyKey = (exchange: Exchange): Effect.Effect<string, Refusal> => {
  const parsed = parseIdempotencyKey(exchange.header("idempotency-key"))
  return parsed.ok ? Effect.succeed(parsed.key) : Effect.fail(new Refusal({ code: `idempotency_key_${parsed.reason}` }))
}
