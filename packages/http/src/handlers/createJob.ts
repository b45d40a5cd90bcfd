import * as Effect from "effect/Effect"
import type { CreateJobError } from "@kiln/core/effect"
import type { Job } from "@kiln/core/domain"
import type { BodyBroken } from "../server/body.ts"
import type { Exchange } from "../server/Exchange.ts"
import { readJsonObject } from "../server/jsonBody.ts"
import { Refusal } from "../server/Refusal.ts"
import { jsonReply, type Reply } from "../server/Reply.ts"
import type { Handler } from "../server/Router.ts"
import { storeUnavailable } from "../server/unavailable.ts"
import { parseIdempotencyKey } from "../wire/IdempotencyKey.ts"
import type { HandlerContext } from "./HandlerContext.ts"
import { pollingPath } from "./jobBodies.ts"
import type { OfferedKind } from "./offerKinds.ts"
import { refusing } from "./refusing.ts"

type Refused = Exclude<CreateJobError, { readonly _tag: "InvalidRequest" }>

/** Translates errors; `param` is the field that names the upload. */
const refusingCreation = (param: string | undefined) => {
  const aboutUpload = { ...(param !== undefined && { param }) }
  return refusing<Refused>({
    IdempotencyKeyReused: () => new Refusal({ code: "idempotency_key_reused" }),
    LiveNotActive: ({ missing }) => new Refusal({ code: "live_not_active", details: { missing } }),
    UploadNotFound: () => new Refusal({ code: "upload_not_found", ...aboutUpload }),
    UploadNotReady: () => new Refusal({ code: "upload_not_ready", ...aboutUpload }),
    UploadAlreadyUsed: () => new Refusal({ code: "upload_already_used", ...aboutUpload }),
    UploadExpired: () => new Refusal({ code: "upload_expired", ...aboutUpload }),
    QueueFull: () => new Refusal({ code: "queue_full" }),
    StoreUnavailable: storeUnavailable,
  })
}

/** Creates a job of one kind. A repeated request gets the job created by the first. */
export const createJob = (context: HandlerContext, { family, kind, names, route }: OfferedKind): Handler => {
  const refuse = refusingCreation(route.upload)
  return Effect.fnUntraced(function* (exchange): Effect.fn.Return<Reply, Refusal | BodyBroken> {
    const grant = yield* context.admit(exchange, kind.keyScope, "create")
    const body = yield* readJsonObject(exchange)
    yield* context.confirm(exchange)
    const key = yield* idempotencyKey(exchange)
    const { requireLiveWorker } = context
    const accepted = context.engine.createJob(grant, kind, names.toRequest(body), key, { requireLiveWorker })
    const { job, replayed } = yield* Effect.mapError(accepted, (error) =>
      error._tag === "InvalidRequest" ? names.refuse(error.errors) : refuse(error),
    )
    return jsonReply(202, createdBody(job), {
      location: context.publicUrl() + pollingPath(family, job.id),
      "retry-after": "2",
      ...(replayed && { "idempotency-replayed": "true" }),
    })
  })
}

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
