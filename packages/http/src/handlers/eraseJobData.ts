import * as Effect from "effect/Effect"
import type { JobFamily } from "@kiln/client"
import type { KeyScope } from "@kiln/core/domain"
import type { Refusal } from "../server/Refusal.ts"
import { noContent, type Reply } from "../server/Reply.ts"
import type { Handler } from "../server/Router.ts"
import type { HandlerContext } from "./HandlerContext.ts"
import { findJob } from "./pollJob.ts"
import { refusalFor } from "./refusalFor.ts"

/** Deletes the retained data of a finished job. Repeating the request returns the same response. */
export const eraseJobData = (context: HandlerContext, family: JobFamily, keyScope: KeyScope): Handler =>
  Effect.fnUntraced(function* (exchange, id): Effect.fn.Return<Reply, Refusal> {
    const grant = yield* context.admit(exchange, keyScope, "delete")
    yield* findJob(context, grant, family, id)
    yield* Effect.mapError(context.engine.eraseJobData(grant, id), (error) => refusalFor(error))
    return noContent
  })
