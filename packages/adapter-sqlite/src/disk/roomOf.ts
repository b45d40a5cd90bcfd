/**
 * An operation's effect on a full disk. `frees`: it deletes, or an operator asked for it, so the reserve is given up for
 * it. `grows`: it accepts or begins work, so it fails while the reserve is given up, because it would use up the room that others need
 * to delete. `undefined`: it keeps or ends work that was begun, with the room that there is, of which the log has some.
 */
export type Room = "frees" | "grows" | undefined

const growing: ReadonlySet<string> = new Set([
  "JobStore.createJobs",
  "JobStore.createAndClaimJobs",
  "JobStore.claimJobs",
  // The caller then completes without a claim.
  "JobStore.completeAndClaimJobs",
  "UploadStore.createUploads",
  "UploadStore.claimUpload",
  "Switchboard.publishWorker",
])

const freeing: ReadonlySet<string> = new Set([
  "migrate",
  "openDatabase",
  "returnFreeSpace",
  "JobStore.cancelJobs",
  "JobStore.confirmPurges",
  "JobStore.deleteJobs",
  "JobStore.eraseJobs",
  "JobStore.expireData",
  // `kiln retention run` begins with it.
  "JobStore.publishRetention",
  "JobStore.writeLineage",
  "UploadStore.deleteUploads",
  "UploadStore.expireUploads",
])

/** Ports that only operators and starts write to. */
const operated = /^(AuditLog|KeyDirectory|SecretStore|Switchboard)\./

const background: ReadonlySet<string> = new Set(["KeyDirectory.touchKeys"])

export const roomOf = (operation: string): Room => {
  if (growing.has(operation)) return "grows"
  if (background.has(operation)) return undefined
  return freeing.has(operation) || operated.test(operation) ? "frees" : undefined
}
