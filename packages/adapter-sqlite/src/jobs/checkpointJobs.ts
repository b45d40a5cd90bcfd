import { sql } from "kysely"
import type { Checkpoint, FencedOutcome } from "@kiln/core/ports"
import type { Values } from "../columns.ts"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

type Step = Values<"jobs", "id" | "token"> & Values<"checkpoints", "step" | "value">

/** Selects the job's row, so the step is written only while the fence holds. A repeated step replaces its value. */
const keepStep = statement((given: Given<Step>) =>
  query
    .insertInto("checkpoints")
    .columns(["job_seq", "step", "value"])
    .expression(
      query
        .selectFrom("jobs")
        .select(["seq", sql<string>`${given.step}`.as("step"), sql<string>`${given.value}`.as("value")])
        .where("id", "=", given.id)
        .where("status", "=", "processing")
        .where("held", "=", 1)
        .where("token", "=", given.token),
    )
    .onConflict((conflict) =>
      conflict.columns(["job_seq", "step"]).doUpdateSet((set) => ({ value: set.ref("excluded.value") })),
    ),
)

export const checkpointJobs = (tx: Transaction, items: ReadonlyArray<Checkpoint>): ReadonlyArray<FencedOutcome> =>
  items.map(({ jobId: id, step, token, value }) =>
    tx.run(keepStep, { id, token, step, value: JSON.stringify(value) }) === 1 ? "Written" : "LeaseLost",
  )
