import { hidden, plant } from "./PlantedBug.ts"

/** In uploads. */
export const uploads = [
  plant(
    "domain/Upload.ts",
    "UploadStore.extendUpload, completeUpload, releaseUpload",
    "a transfer that lost still commits",
    ["&& upload.token === token", ""],
  ),
  plant(
    "domain/Upload.ts",
    "UploadStore.extendUpload, completeUpload, releaseUpload",
    "a transfer commits into an erased upload",
    ["!upload.erased && upload.claimedUntil !== null", "(upload.erased || upload.claimedUntil !== null)"],
  ),
  plant(
    "MemoryUploadStore.ts",
    "UploadStore.extendUpload, completeUpload, releaseUpload",
    "a repeated end of a transfer is told that the lease was lost",
    ["upload !== undefined && isRepeat(upload)", "false"],
  ),
  // In a history a transfer brings its own blob only.
  hidden(
    plant(
      "MemoryUploadStore.ts",
      "UploadStore.extendUpload, completeUpload, releaseUpload",
      "another blob is taken for a repeat of the one received",
      ["isRepeatedReceipt(upload, transfer.file.blobKey)", "upload.file !== null"],
    ),
  ),
  plant(
    "MemoryUploadStore.ts",
    "UploadStore.extendUpload, completeUpload, releaseUpload",
    "giving up a completed transfer is taken for a repeat: its blob would be removed",
    ["isRepeatedGivingUp(upload,", "isRepeatedGivingUp({ ...upload, file: null },"],
  ),
  plant(
    "MemoryUploadStore.ts",
    "UploadStore.extendUpload, completeUpload, releaseUpload",
    "a transfer that was taken over is taken for one given up",
    ["isRepeatedGivingUp(upload,", "isRepeatedGivingUp({ ...upload, token: transfer.token },"],
  ),
  // A history allows some.
  hidden(
    plant("domain/transferAcceptance.ts", "UploadStore.claimUpload", "where no transfer is allowed one begins", [
      "transferRefusal(upload, now, transfer.maxTransfers)",
      "transferRefusal(upload, now, transfer.maxTransfers || 5)",
    ]),
  ),
  plant("domain/transferAcceptance.ts", "UploadStore.claimUpload", "transfers are not counted", [
    "transfers: upload.transfers + 1",
    "transfers: upload.transfers",
  ]),
  hidden(
    plant(
      "MemoryUploadStore.ts",
      "UploadStore.claimUpload",
      "two transfers may begin at once: checked first, written later",
      [
        "claimUpload: (transfer) => step((now) => claimUpload(state, transfer, now)),",
        `claimUpload: (transfer) => Effect.gen(function* () {
        const uploads = new Map(state.uploads)
        yield* Effect.yieldNow
        return yield* step((now) => {
          const outcome = claimUpload({ ...state, uploads }, transfer, now)
          if (outcome._tag === "Claimed") state.uploads.set(outcome.upload.id, outcome.upload)
          return outcome
        })
      }),`,
      ],
      ["import {\n  exceedsCap", 'import { Effect } from "effect"\nimport {\n  exceedsCap'],
    ),
  ),
  plant("MemoryUploadStore.ts", "UploadStore.expireUploads", "an upload of an unfinished job is erased by age", [
    "upload.jobId === null && !upload.erased && upload.usableUntil",
    "!upload.erased && upload.usableUntil",
  ]),
  plant("MemoryUploadStore.ts", "UploadStore.deleteUploads", "an upload's record goes while its job is there", [
    "upload.jobId === null && upload.erased &&",
    "upload.erased &&",
  ]),
  plant("MemoryUploadStore.ts", "UploadStore.findUploadOrphans", "collection takes what a transfer may still commit", [
    "inTransfer: upload.claimedUntil !== null",
    "inTransfer: false",
  ]),
  // Histories have no caps: they are to get far.
  ...[
    plant("domain/transferAcceptance.ts", "UploadStore: caps", "the cap of uploads lets one too many in", [
      ">= upload.cap.uploads",
      "> upload.cap.uploads",
    ]),
    plant(
      "MemoryUploadStore.ts",
      "UploadStore: caps",
      "bytes that wait are counted when a transfer begins, and not when it ends",
      ['if (exceedsCap(storedBytes(state, running.projectId, now), file.bytes, capBytes)) return "UploadsFull"', ";"],
    ),
    plant("MemoryUploadStore.ts", "UploadStore: caps", "one project's uploads fill another's cap", [
      "upload.projectId === projectId && isWaiting",
      "isWaiting",
    ]),
  ].map(hidden),
]
