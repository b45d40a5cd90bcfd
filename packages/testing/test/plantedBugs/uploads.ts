import { hidden, plant } from "./PlantedBug.ts"

/** In uploads. */
export const uploads = [
  plant(
    "MemoryUploadStore.ts",
    "UploadStore.extendUpload, completeUpload, releaseUpload",
    "a transfer that lost still commits",
    ["&& upload.token === token", ""],
  ),
  plant(
    "MemoryUploadStore.ts",
    "UploadStore.extendUpload, completeUpload, releaseUpload",
    "a transfer commits into an erased upload",
    ["!upload.erased && upload.claimedUntil !== null", "(upload.erased || upload.claimedUntil !== null)"],
  ),
  plant("MemoryUploadStore.ts", "UploadStore.claimUpload", "transfers are not counted", [
    "transfers: upload.transfers + 1",
    "transfers: upload.transfers",
  ]),
  hidden(
    plant(
      "MemoryUploadStore.ts",
      "UploadStore.claimUpload",
      "two transfers may begin at once: checked first, written later",
      [
        "claimUpload: (request) => step((now) => claimUpload(state, request, now)),",
        `claimUpload: (request) => Effect.gen(function* () {
        const uploads = new Map(state.uploads)
        yield* Effect.yieldNow
        return yield* step((now) => {
          const outcome = claimUpload({ ...state, uploads }, request, now)
          if (outcome._tag === "Claimed") state.uploads.set(outcome.upload.id, outcome.upload)
          return outcome
        })
      }),`,
      ],
      ["import { transferEnd", 'import { Effect } from "effect"\nimport { transferEnd'],
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
    "|| holdsTransfer(upload, token))",
    ")",
  ]),
]
