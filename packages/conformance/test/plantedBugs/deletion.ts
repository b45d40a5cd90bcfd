import { hidden, plant } from "./PlantedBug.ts"

/** In deletion, pruning and collection. */
export const deletion = [
  plant("MemoryJobStore.ts", "JobStore.findJobs", "a job is found by its id alone", [
    "job !== undefined && owns(principal, job) ? job",
    "job !== undefined ? job",
  ]),
  plant("MemoryJobStore.ts", "JobStore.pollJobs", "a poll shows a job to any key", [
    "const polled = findOwned(state, item)",
    "const polled = state.jobs.get(item.jobId)",
  ]),
  plant("jobs/eraseJobs.ts", "JobStore.eraseJobs", "any key may erase a job", ["|| !owns(principal, job)", ""]),
  plant("jobs/eraseJobs.ts", "JobStore.eraseJobs", "a running job's data can be deleted", [
    'if (!isFinished(job)) return { _tag: "Unfinished" }',
    "",
  ]),
  plant("jobs/eraseJobs.ts", "JobStore.eraseJobs", "a deletion leaves the request", ["request: null,", ""]),
  plant("jobs/eraseJobs.ts", "JobStore.eraseJobs", "a deletion leaves the uploaded file", [
    "file: null, claimedUntil: null, erased: true",
    "erased: true",
  ]),
  plant("jobs/eraseJobs.ts", "JobStore.eraseJobs", "the purge is not recorded: a crash in between leaves the blobs", [
    "return purge ? addPurges(state, blobPrefixesOf(job)) : []",
    "return blobPrefixesOf(job).map((blobPrefix) => ({ blobPrefix }))",
  ]),
  plant("domain/BlobKey.ts", "JobStore.eraseJobs", "the upload's blob is not purged", [
    "[jobBlobPrefix(job.id), uploadBlobPrefix(job.uploadId)]",
    "[jobBlobPrefix(job.id)]",
  ]),
  plant("jobs/pruneJobs.ts", "JobStore.expireData", "data is erased a millisecond late", [
    "job.finishedAt <= now - retentionAgeOf(olderThanMs, job.kind)",
    "job.finishedAt < now - retentionAgeOf(olderThanMs, job.kind)",
  ]),
  plant("jobs/pruneJobs.ts", "JobStore.expireData", "data ages from the job's creation, not from its end", [
    "job.finishedAt <= now - retentionAgeOf(olderThanMs, job.kind)",
    "job.createdAt <= now - retentionAgeOf(olderThanMs, job.kind)",
  ]),
  plant("jobs/pruneJobs.ts", "JobStore.deleteJobs", "a record ages from the job's creation, not from its end", [
    "job.finishedAt <= now - retentionAgeOf(olderThanMs, job.kind)",
    "job.createdAt <= now - retentionAgeOf(olderThanMs, job.kind)",
  ]),
  plant("jobs/pruneJobs.ts", "JobStore.deleteJobs", "the retention of one kind applies to all", [
    "retentionAgeOf(olderThanMs, job.kind)",
    'retentionAgeOf(olderThanMs, Object.keys(Object(olderThanMs).byKind ?? {})[0] ?? "")',
  ]),
  plant("jobs/pruneJobs.ts", "JobStore.deleteJobs", "a deleted job's upload stays", [
    "if (job.uploadId !== null) state.uploads.delete(job.uploadId)",
    "",
  ]),
  plant("jobs/pruneJobs.ts", "JobStore.deleteJobs", "a deleted job's blobs are not purged", [
    'job.retained === "kept" ? addPurges',
    'job.retained === "expired" ? addPurges',
  ]),
  plant("jobs/findOrphans.ts", "JobStore.findOrphans", "collection removes what a live attempt may still commit", [
    "token: job.token }",
    "token: isFinished(job) ? job.token : job.token + 1 }",
  ]),
  plant("jobs/findOrphans.ts", "JobStore.findOrphans", "a stale attempt's blob is never collected", [
    "return reason === undefined ?",
    'return reason === undefined || (reason === "spent" && job !== undefined && !isFinished(job)) ?',
  ]),
  plant("jobs/findOrphans.ts", "JobStore.findOrphans", "collection removes committed files", [
    "job.files.some((file) => file.blobKey === blobKey)",
    "false",
  ]),
  plant(
    "jobs/findOrphans.ts",
    "JobStore.findOrphans",
    "a blob that is newer than its record is taken for a spent one",
    ["[{ blobKey, reason }]", '[{ blobKey, reason: reason === "ahead" ? "spent" : reason }]'],
  ),
  plant("jobs/findOrphans.ts", "JobStore.findOrphans", "a blob without a record is taken for a spent one", [
    "[{ blobKey, reason }]",
    '[{ blobKey, reason: reason === "unknown" ? "spent" : reason }]',
  ]),
  hidden(
    plant(
      "jobs/lineage.ts",
      "JobStore.readLineage, writeLineage",
      "a lineage is written regardless of the version that was read",
      ["if (state.lineage.version !== version) return false", ""],
    ),
  ),
]
