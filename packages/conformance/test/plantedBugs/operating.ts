import { hidden, plant } from "./PlantedBug.ts"

const priority = "JobStore.claimJobs: priority"
const delay = "JobStore.createJobs: delay"
const metadataSection = "JobStore.createJobs: metadata"
const retries = "JobStore.createJobs: retries"
const cancel = "JobStore.cancelJobs"
const list = "JobDirectory.listJobs"
const count = "JobDirectory.countJobs"
const queue = "JobDirectory.measureQueue"
const deliveries = "DeliveryStore.settleDeliveries"

/** In what operators and embedding programs ask for: priority, delay, retries, cancellation, lists and counts. */
export const operating = [
  hidden(
    plant("MemoryJobDirectory.ts", "JobDirectory.listJobs: labels", "a job needs only one of several labels", [
      "labels.every((label)",
      "labels.some((label)",
    ]),
  ),
  plant("jobs/claimJobs.ts", priority, "priorities are ignored", ["rankOf(a.priority) - rankOf(b.priority) ||", ""]),
  plant("jobs/claimJobs.ts", priority, "the least urgent job is served first", [
    "rankOf(a.priority) - rankOf(b.priority)",
    "rankOf(b.priority) - rankOf(a.priority)",
  ]),
  plant("domain/acceptance.ts", priority, "the priority is not kept with the job", [
    "priority: job.priority",
    'priority: "normal"',
  ]),
  plant("domain/acceptance.ts", delay, "a delay is ignored", ["job.limits, Math.ceil(job.delayMs))", "job.limits)"]),
  plant("domain/acceptance.ts", delay, "the queue limit counts from a delayed job's creation", [
    "...created(now, job.limits, Math.ceil(job.delayMs)),",
    "...created(now, job.limits, Math.ceil(job.delayMs)),\n    deadlineAt: now + job.limits.queueLimitMs,",
  ]),
  plant("jobs/eraseJobs.ts", metadataSection, "metadata is erased with the data", [
    "request: null,",
    "request: null, metadata: {},",
  ]),
  plant("domain/acceptance.ts", retries, "a job that did not fail is retried", [
    'failed?.status === "failed"',
    "failed !== undefined",
  ]),
  plant("domain/acceptance.ts", retries, "a job without its data is retried", ['failed.retained === "kept" &&', ""]),
  plant("domain/Access.ts", retries, "another key's failed job is retried", [
    "record.keyId === principal.keyId && ",
    "",
  ]),
  plant("jobs/createJobs.ts", retries, "a failed job keeps the upload its retry took over", [
    "{ ...retried, uploadId: null }",
    "retried",
  ]),
  plant("domain/acceptance.ts", retries, "two retries share one upload", ["failed.uploadId === uploadId &&", ""]),
  plant("jobs/cancelJobs.ts", cancel, "a claimed job is not canceled", [
    "if (failed === undefined)",
    "if (failed === undefined || job.held)",
  ]),
  plant("jobs/cancelJobs.ts", cancel, "a canceled job keeps its deadline", [
    "{ ...job, ...failed }",
    "{ ...job, ...failed, deadlineAt: job.deadlineAt }",
  ]),
  plant("jobs/cancelJobs.ts", cancel, "a second cancellation cancels again", [
    'if (failed === undefined) return "AlreadyFinished"',
    'if (failed === undefined) return "Canceled"',
  ]),
  plant("MemoryJobStore.ts", "JobStore.checkClaims", "any token is accepted as the claim's", [
    "holdsClaim(job, token)",
    "job.held",
  ]),
  plant("MemoryJobDirectory.ts", list, "a page begins with the last job of the page before", [
    "compare(place, job) < 0",
    "compare(place, job) <= 0",
  ]),
  plant("MemoryJobDirectory.ts", list, "jobs created at the same time are lost between two pages", [
    "compare(place, job) < 0",
    "place.createdAt > job.createdAt",
  ]),
  plant("MemoryJobDirectory.ts", list, "a time filter includes a millisecond too much", [
    "job.createdAt < query.createdTo",
    "job.createdAt <= query.createdTo",
  ]),
  plant("MemoryJobDirectory.ts", count, "delayed jobs count as waiting", ["claimableAt > now ?", "false ?"]),
  plant("MemoryJobDirectory.ts", count, "finished jobs are counted forever", [
    "job.finishedAt > now - finishedWithinMs",
    "true",
  ]),
  hidden(
    plant("MemoryJobDirectory.ts", queue, "the age of a job in the queue counts from its creation", [
      "now - (claimableAt ?? now)",
      "now - job.createdAt",
    ]),
  ),
  hidden(
    plant("MemoryJobDirectory.ts", queue, "more jobs of the queue are counted than asked for", [
      "index < limit",
      "index <= limit",
    ]),
  ),
  hidden(
    plant("MemoryDeliveryStore.ts", deliveries, "a first call of onFinished counts as a repeated one", [
      "attempts > 1",
      "attempts > 0",
    ]),
  ),
  hidden(
    plant("MemoryDeliveryStore.ts", deliveries, "a delivery that a process is making counts as due", [
      "now - dueAt))",
      "now - dueAt + 30_000))",
    ]),
  ),
  plant("MemorySwitchboard.ts", "Switchboard.pauseKind", "resuming one kind resumes all", [
    "state.pausedKinds.delete(kind)",
    "state.pausedKinds.clear()",
  ]),
]
