import { sql } from "kysely"
import type { NewJob } from "@kiln/core/ports"
import { addingOf } from "../jobs/insertJobs.ts"
import { type Accepted, type NewRow, rowsOf } from "../jobs/newRows.ts"
import { acceptedAt, capsOf, jobOfOutcome, needsNoFacts } from "../jobs/createAtOnce.ts"
import { workChannel } from "../wakeUp/Listener.ts"
import { inSchema } from "../Statement.ts"
import { Session, type Wire } from "../Session.ts"
import type { CallerConnection } from "./CallerConnection.ts"
import { usableSession } from "./settings.ts"

/**
 * Identifies the tables of a session, as `add_callers_jobs` does: the server by its start time, the database and the table by their
 * oids. Distinguishes a copy of the database on another server. Needs no privileges and never fails. Without such a table it returns
 * a different value.
 */
export const tablesOfSession = sql<string>`concat_ws(' ',
      extract(epoch from pg_catalog.pg_postmaster_start_time()),
      (select oid from pg_catalog.pg_database where datname = current_database()),
      (select oid from pg_catalog.pg_class where relname = 'jobs' and relnamespace =
        (select oid from pg_catalog.pg_namespace where concat('"', nspname, '".') = '"kiln".')))`

/** Not the mark of any process, so that this one receives the notification too, when the caller commits. */
export const fromCaller = "caller"

/** Whether `add_callers_jobs` can decide about these jobs. */
export const isDecidedInOneStatement = (jobs: ReadonlyArray<NewJob>): boolean =>
  jobs.every((job) => needsNoFacts(job) && (job.storageCap ?? 0) === 0)

/** The answer of `add_callers_jobs`; `undecided` if the facts have to be read. */
export type AddedInOneStatement =
  | { readonly _tag: "Added"; readonly acceptedAt: number; readonly isLater: boolean }
  | {
      readonly _tag: "Undecided"
      readonly why: "busy" | "elsewhere" | "lanes" | "full" | "bound" | "outside" | "session"
    }

type Answer =
  | { readonly answer: "added"; readonly accepted: number; readonly isLater: boolean }
  | {
      readonly answer: "failed"
      readonly code: string
      readonly message: string
      readonly detail: string
      readonly where: string
    }
  | { readonly answer: "busy" | "elsewhere" | "lanes" | "full" | "bound" | "session" }

const text = `SELECT CASE WHEN ${usableSession} THEN "kiln".add_callers_jobs($1::text, $2::text, $3::text, $4::text, $5::text, $6::text, $7::text)
  ELSE '{"answer":"session"}' END AS answer`

/** The rows of jobs that are accepted at any time, for lanes that are known. */
export const addableRows = (jobs: ReadonlyArray<NewJob>, lanes: ReadonlyMap<string, number>): ReadonlyArray<NewRow> =>
  rowsOf(
    jobs.map((item): Accepted => ({ item, job: jobOfOutcome(acceptedAt(item, 0)), priceId: null, retried: undefined })),
    lanes,
  )

/** Adds all jobs in the caller's transaction or none, in one round trip. Throws the server's error. */
export const addInOneStatement = async (
  connection: CallerConnection,
  wire: Wire,
  {
    jobs,
    notifications,
    rows,
    tables,
  }: {
    readonly jobs: ReadonlyArray<NewJob>
    readonly rows: ReadonlyArray<NewRow>
    /** The place of the tables. */
    readonly tables: string
    readonly notifications: boolean
  },
): Promise<AddedInOneStatement> => {
  const hint = notifications ? { channel: workChannel(wire), payload: fromCaller } : undefined
  const adding = addingOf(new Session(connection, wire), rows, {
    own: false,
    acceptedAt: null,
    caps: capsOf(jobs),
    hint,
  })
  const { caps, channel, items, payload, shared, wanted } = adding
  const told = JSON.parse(
    await connection.answer(inSchema(text, wire.schema), [tables, items, shared, wanted, caps, channel, payload]),
  ) as Answer
  if (told.answer === "added") return { _tag: "Added", acceptedAt: told.accepted, isLater: told.isLater }
  if (told.answer !== "failed") return { _tag: "Undecided", why: told.answer }
  // The caller has made constraints immediate, so that a transaction cannot be told from its absence.
  if (told.code === "25P01") return { _tag: "Undecided", why: "outside" }
  const { answer: _, message, ...fields } = told
  throw Object.assign(new Error(message), { severity: "ERROR", ...fields })
}
