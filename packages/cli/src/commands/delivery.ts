import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import { maxDeliveryAttempts } from "@kiln/core/domain"
import { redeliverJob } from "@kiln/core/effect"
import { DeliveryStore } from "@kiln/core/ports"
import { failed, misused } from "../CommandFailed.ts"
import { answer, formatTable, formatTime } from "../Output.ts"
import { hasTag, recordChange } from "../recordChange.ts"
import { withStores } from "../withStores.ts"
import { unknownJob } from "./jobChange.ts"

const mostDeliveries = 1_000

const flags = {
  limit: Flag.Int("limit").pipe(
    Flag.withDescription(`Maximum number of deliveries, 1 to ${mostDeliveries}`),
    Flag.withDefault(50),
  ),
}

const list = Command.make("list", flags, ({ limit }) =>
  withStores(
    Effect.gen(function* () {
      if (limit < 1 || limit > mostDeliveries) return yield* misused(`--limit must be from 1 to ${mostDeliveries}`)
      const store = yield* DeliveryStore
      const counts = yield* store.countDeliveries
      const deliveries = yield* store.listDeliveries(limit)
      const all = counts.reduce((sum, { count }) => sum + count, 0)
      const table = formatTable(
        ["JOB", "TYPE", "CALLS", "DUE"],
        deliveries.map(({ attempts, dueAt, jobId, kind }) => [jobId, kind, String(attempts), formatTime(dueAt)]),
        "no finished job waits for its delivery to onFinished",
      )
      yield* answer({
        json: {
          deliveries: deliveries.map(({ attempts, dueAt, jobId, kind }) => ({
            job_id: jobId,
            type: kind,
            calls: attempts,
            calls_left: Math.max(0, maxDeliveryAttempts - attempts),
            due_at: formatTime(dueAt),
          })),
          pending: counts.map(({ count, kind, oldestDueMs, repeated }) => ({
            type: kind,
            count,
            repeated,
            oldest_due_seconds: oldestDueMs / 1_000,
          })),
        },
        text: all > deliveries.length ? `${table}\n\n${all} in all` : table,
      })
    }),
  ),
).pipe(
  Command.withDescription(
    "List finished jobs whose delivery to onFinished (a webhook, for example) is not confirmed yet",
  ),
)

const retry = Command.make("retry", { id: Argument.String("JOB_ID") }, ({ id: jobId }) =>
  withStores(
    Effect.gen(function* () {
      const changed = yield* redeliverJob(jobId).pipe(
        recordChange({ action: "delivery.retry", subject: jobId }, hasTag("Redelivered")),
        Effect.catchTags({
          JobNotFound: () => unknownJob(jobId),
          JobNotDelivered: (error) => failed(`${jobId} is not delivered: ${error.message}`),
        }),
      )
      yield* answer({
        json: { job_id: jobId, redelivered: changed },
        text: changed
          ? `onFinished is called for ${jobId} again within seconds, by a process that has it`
          : `onFinished is being called for ${jobId}, or will be within a minute`,
      })
    }),
  ),
).pipe(Command.withDescription("Call onFinished again for a finished job, also after it was confirmed or given up"))

export const deliveryCommand = Command.make("delivery").pipe(
  Command.withDescription("Show finished jobs that wait for their delivery to onFinished, and deliver again"),
  Command.withSubcommands([list, retry]),
)
