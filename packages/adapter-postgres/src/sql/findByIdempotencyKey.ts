import type { Job, KeyId } from "@kiln/core/domain"
import { jobByIdempotencyKey, jobOf } from "../JobRow.ts"
import type { Session } from "../Session.ts"

/** From the unique index that lets a key bind one job only. */
export const findByIdempotencyKey = async (
  session: Session,
  keyId: KeyId,
  idempotencyKey: string,
): Promise<Job | undefined> => {
  const row = await session.get(jobByIdempotencyKey, { keyId, idempotencyKey })
  return row && jobOf(row)
}
