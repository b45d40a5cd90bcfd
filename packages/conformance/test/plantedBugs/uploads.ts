import { hidden, plant } from "./PlantedBug.ts"

/** In uploads. */
export const uploads = [
  plant(
    "domain/Upload.ts",
    "UploadStore.extendUpload, completeUpload, releaseUpload",
    "a transfer that lost its claim still commits",
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
    "a repeated end of a transfer is answered with a lost lease",
    ["upload !== undefined && isRepeat(upload)", "false"],
  ),
  // In a history a transfer brings its own blob only.
  hidden(
    plant(
      "MemoryUploadStore.ts",
      "UploadStore.extendUpload, completeUpload, releaseUpload",
      "another blob is taken for a repetition of the received one",
      ["isRepeatedReceipt(upload, transfer.file.blobKey)", "upload.file !== null"],
    ),
  ),
  plant(
    "MemoryUploadStore.ts",
    "UploadStore.extendUpload, completeUpload, releaseUpload",
    "releasing a completed transfer is taken for a repetition, so its blob is removed",
    ["isRepeatedGivingUp(upload,", "isRepeatedGivingUp({ ...upload, file: null },"],
  ),
  plant(
    "MemoryUploadStore.ts",
    "UploadStore.extendUpload, completeUpload, releaseUpload",
    "a transfer that was taken over is taken for a released one",
    ["isRepeatedGivingUp(upload,", "isRepeatedGivingUp({ ...upload, token: transfer.token },"],
  ),
  // A history allows some.
  hidden(
    plant("domain/transferAcceptance.ts", "UploadStore.claimUpload", "a transfer begins although none is allowed", [
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
  plant("MemoryUploadStore.ts", "UploadStore.deleteUploads", "an upload's record is deleted while its job exists", [
    "upload.jobId === null && upload.erased &&",
    "upload.erased &&",
  ]),
  plant(
    "MemoryUploadStore.ts",
    "UploadStore.findUploadOrphans",
    "collection removes what a transfer may still commit",
    ["inTransfer: upload.claimedUntil !== null", "inTransfer: false"],
  ),
  // Histories have no caps: they are to get far.
  ...[
    plant("domain/transferAcceptance.ts", "UploadStore: caps", "the upload cap admits one upload too many", [
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
