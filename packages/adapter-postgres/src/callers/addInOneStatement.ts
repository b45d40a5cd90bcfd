import { sql } from "kysely"
import { addingOf } from "../jobs/insertJobs.ts"
import type { Addable } from "../jobs/RememberedFacts.ts"
import { workChannel } from "../wakeUp/Listener.ts"
import { inSchema } from "../Statement.ts"
import { Session, type Wire } from "../Session.ts"
import type { CallerConnection } from "./CallerConnection.ts"
import { usableSession } from "./settings.ts"

/**
 * Identifies the tables of a session, as `create_callers_jobs` does: the server by its start time, the database and the table by their
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

/** The reply of `create_callers_jobs`; `Undecided` where the facts have to be read. */
export type AddedInOneStatement =
  | { readonly _tag: "Added"; readonly acceptedAt: number; readonly isLater: boolean }
  | { readonly _tag: "Undecided"; readonly why: Why | "outside" }

type Why = "busy" | "elsewhere" | "lanes" | "board" | "full" | "capped" | "refused" | "snapshot" | "session"

type Answer =
  | { readonly answer: "added"; readonly accepted: number; readonly isLater: boolean }
  | {
      readonly answer: "failed"
      readonly code: string
      readonly message: string
      readonly detail: string
      readonly where: string
    }
  | { readonly answer: Why }

const text = `SELECT CASE WHEN ${usableSession} THEN "kiln".create_callers_jobs($1::text, $2::text, $3::text, $4::text, $5::text, $6::text,
  $7::text, $8::text, $9::text, $10::text, $11::text, $12::text) ELSE '{"answer":"session"}' END AS answer`

/** Adds all jobs in the caller's transaction or none, in one round trip. Throws the server's error. */
export const addInOneStatement = async (
  connection: CallerConnection,
  wire: Wire,
  {
    jobs: { compared, lanes, rows },
    notifications,
    tables,
  }: {
    readonly jobs: Addable
    /** The place of the tables. */
    readonly tables: string
    readonly notifications: boolean
  },
): Promise<AddedInOneStatement> => {
  const hint = notifications ? { channel: workChannel(wire), payload: fromCaller } : undefined
  const adding = addingOf(new Session(connection, wire), rows, lanes, { own: false, compared, hint })
  const { board, caps, channel, consumed, items, labels, payload, scopes, servedUntil, shared, wanted } = adding
  const until = servedUntil === null ? null : String(servedUntil)
  const values = [tables, items, shared, wanted, caps, labels, scopes, consumed, board, until, channel, payload]
  const told = JSON.parse(await connection.answer(inSchema(text, wire.schema), values)) as Answer
  if (told.answer === "added") return { _tag: "Added", acceptedAt: told.accepted, isLater: told.isLater }
  if (told.answer !== "failed") return { _tag: "Undecided", why: told.answer }
  // The caller has made constraints immediate, so that a transaction cannot be told from its absence.
  if (told.code === "25P01") return { _tag: "Undecided", why: "outside" }
  if (told.code === "KILN2") return { _tag: "Undecided", why: "refused" }
  const { answer: _, message, ...fields } = told
  throw Object.assign(new Error(message), { severity: "ERROR", ...fields })
}
