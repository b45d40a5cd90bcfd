import { sql } from "kysely"
import type { ClaimRequest } from "@kiln/core/ports"
import type { Session } from "../Session.ts"
import { type Given, query, statement } from "../Statement.ts"
import {
  type Added,
  addedOf,
  type AddedOne,
  type Adding,
  type CreateJob,
  createJobCall,
  type CreateJobs,
  createJobsCall,
  parametersOf,
} from "./insertJobs.ts"
import type { LanePositions } from "./LanePositions.ts"
import type { Lanes, NewRow } from "./newRows.ts"
import {
  type AnswerRow,
  type Asked,
  askedOf,
  type ClaimCall,
  type Taken,
  takeCall,
  takenOf,
  usually,
} from "./takeJobs.ts"

/**
 * Adds jobs and then claims, in one transaction. Nothing is claimed if some jobs were not added, except by a repeated call, whose
 * own jobs are there already. The claim refers to the result of `accept_jobs`, so it runs second and sees what that wrote.
 */
const createJobsAndClaim = statement((given: Given<CreateJobs & Asked>) => {
  const most = sql<number>`CASE WHEN (added.accepted IS NOT NULL AND added.refused IS NULL) OR ${given.repeated}::boolean
    THEN ${given.most}::bigint ELSE 0 END`
  return query
    .selectFrom(createJobsCall(given))
    .innerJoinLateral(takeCall(given, most), (join) => join.onTrue())
    .selectAll("claimed")
    .select(["added.accepted", "added.refused", "added.reason", "added.counts"])
    .$castTo<AnswerRow & Added>()
})

const createJobAndClaim = statement((given: Given<CreateJob & Asked>) => {
  const most = sql<number>`CASE WHEN added.accepted >= 0 OR ${given.repeated}::boolean
    THEN ${given.most}::bigint ELSE 0 END`
  return query
    .selectFrom(createJobCall(given))
    .innerJoinLateral(takeCall(given, most), (join) => join.onTrue())
    .selectAll("claimed")
    .select(["added.accepted", "added.unfinished", "added.unfinished_to"])
    .$castTo<AnswerRow & AddedOne>()
})

/** Jobs that were added, and the claim after it; `undefined` if it was not the claim's turn among claims with limits. */
export interface AddedAndClaimed extends Added {
  readonly claimed: Taken | undefined
}

/** Jobs to be added, and how. */
interface Addition {
  readonly rows: ReadonlyArray<NewRow>
  readonly lanes: Lanes
  readonly how: Adding
}

/** Adds jobs and claims, in one statement. Nobody waits with it for claims of others: the worker can claim later. */
export const addAndClaim = async (
  session: Session,
  { how, lanes, rows }: Addition,
  positions: LanePositions,
  request: ClaimRequest,
  call: ClaimCall,
): Promise<AddedAndClaimed> => {
  const asked = { ...askedOf(session, request, positions, { ...usually, waits: false }), ...call }
  const given = parametersOf(session, rows, lanes, how)
  if ("one" in given) {
    const answer = await session.all(createJobAndClaim, { ...given.one, ...asked })
    return { ...addedOf(given.one.project_id, answer[0]), claimed: takenOf(request, answer) }
  }
  const answer = await session.all(createJobsAndClaim, { ...given.list, ...asked })
  const [added] = answer
  if (added === undefined) throw new TypeError("accept_jobs returned no row")
  const { accepted, counts, reason, refused } = added
  return { accepted, refused, reason, counts, claimed: takenOf(request, answer) }
}
