import type { Job } from "@kiln/core/domain"
import { jobOf, jobsByIdempotencyKey } from "../JobRow.ts"
import { type Session, Superseded } from "../Session.ts"
import { keyName } from "./createJobs.ts"
import { bindKeys, type NewRow } from "./insertJobs.ts"

/** How often keys are bound by others and are free again before they are bound here. */
const mostTries = 20

/**
 * Binds the keys in a transaction of a caller's, and answers with the jobs of those that another transaction bound first.
 * Nothing is taken back for it: meanwhile the caller may have written, on this very connection, and was told that it did.
 *
 * Throws `Superseded` where a failed job has let go of its upload by then: that only taking everything back can mend.
 */
export const bindInCallers = async (
  session: Session,
  now: number,
  rows: ReadonlyArray<NewRow>,
): Promise<ReadonlyMap<string, Job>> => {
  const ours = new Set(rows.map(({ id }) => id))
  const theirs = new Map<string, Job>()
  let left = rows
  for (let tries = 0; tries < mostTries; tries++) {
    if ((await bindKeys(session, now, left)) === left.length) return theirs
    const bound = new Set<string>()
    for (const row of await session.batch(jobsByIdempotencyKey, left, {})) {
      bound.add(keyName(row))
      if (!ours.has(row.id)) theirs.set(keyName(row), jobOf(row))
    }
    if (left.some(({ retried, ...row }) => retried?.uploadId != null && theirs.has(keyName(row)))) break
    // Of a key that is neither's the job has been deleted since.
    left = left.filter((row) => !bound.has(keyName(row)))
    if (left.length === 0) return theirs
  }
  throw new Superseded()
}
