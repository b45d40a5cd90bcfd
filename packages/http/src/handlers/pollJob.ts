import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { JobFamily } from "@kiln/client"
import type { JobNotFound } from "@kiln/core"
import { isFinished, type Job, type KeyScope, type Principal, type StoreUnavailable } from "@kiln/core/domain"
import { Refusal } from "../server/Refusal.ts"
import { jsonReply, type Reply } from "../server/Reply.ts"
import type { Handler } from "../server/Router.ts"
import { storeUnavailable } from "../server/unavailable.ts"
import { signDownload } from "../wire/SignedUrls.ts"
import type { HandlerContext } from "./HandlerContext.ts"
import { outputBody, stateBody } from "./jobBodies.ts"
import type { OfferedKind } from "./offerKinds.ts"
import { refusing } from "./refusing.ts"

/** Seconds a file's URL is valid, from the poll that made it. */
const fileUrlSeconds = 600

const refuse = refusing<JobNotFound | StoreUnavailable>({
  JobNotFound: () => new Refusal({ code: "job_not_found" }),
  StoreUnavailable: storeUnavailable,
})

/** The caller's job of a family, and what it was offered as; one of another family is not found here. */
export const findJob = Effect.fnUntraced(function* (
  context: HandlerContext,
  principal: Principal,
  family: JobFamily,
  id: string,
): Effect.fn.Return<{ readonly job: Job; readonly offer: OfferedKind }, Refusal> {
  const job = yield* Effect.mapError(context.engine.getJob(principal, id), refuse)
  const offer = context.offers.get(job.kind)
  if (offer?.family.group !== family.group) return yield* new Refusal({ code: "job_not_found" })
  return { job, offer }
})

/** Tells how a job stands. */
export const pollJob = (context: HandlerContext, family: JobFamily, keyScope: KeyScope): Handler =>
  Effect.fnUntraced(function* (exchange, id): Effect.fn.Return<Reply, Refusal> {
    const grant = yield* context.admit(exchange, keyScope, "read")
    const { job, offer } = yield* findJob(context, grant, family, id)
    const expiresAtSeconds = Math.floor((yield* Clock.currentTimeMillis) / 1000) + fileUrlSeconds
    const fileUrl = (fileId: string) =>
      signDownload(context.keyring, { publicUrl: context.publicUrl(), fileId, expiresAtSeconds })
    const body = stateBody[family.body](
      job,
      outputBody(job, offer.names, fileUrl),
      context.engine.settings.defaultCurrency,
    )
    return jsonReply(200, body, isFinished(job) ? undefined : { "retry-after": "2" })
  })
