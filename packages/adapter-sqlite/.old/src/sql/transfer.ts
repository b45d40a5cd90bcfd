import type { UploadId } from "@kiln/core/domain"
import { type Given, query } from "../Statement.ts"

/**
 * The upload, as long as the transfer begun with this token may still commit: nobody took over or
 * ended it. As with jobs, a lapsed lease alone loses nothing; what decides is who came in between.
 */
export const transferOf = ({ id, token }: Given<{ id: UploadId; token: number }>) =>
  query
    .updateTable("uploads")
    .where("id", "=", id)
    .where("token", "=", token)
    .where("claimed_until", "is not", null)
    .where("erased", "=", 0)
