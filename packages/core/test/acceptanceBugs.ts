import { plant } from "./jobTransitionBugs.ts"

const order = "the first check that objects decides: key, scope, retry, gate, upload, spending, queue"
const reading = "no fact is read behind the check that decides, or that the request does not depend on"
const asked = "an accepted job is what was asked for, with the price in force and everything else at its beginning"
const once = "a request is accepted once: repeated, it is a replay; changed, it is refused"

/** Bugs in the text of `domain/acceptance.ts`, and the property that must notice each. */
export const acceptanceBugs = [
  plant(
    "a closed gate is reported before a job that cannot be retried",
    order,
    "acceptance.ts",
    "job.retryOf !== null && !isRetryable(facts.retried(), job))",
    "job.retryOf !== null && job.gate === null && !isRetryable(facts.retried(), job))",
  ),
  plant(
    "a full queue is reported before a reused key",
    order,
    "acceptance.ts",
    "  const existing = facts.existing()\n",
    '  if (job.queueCap > 0 && facts.unfinished() >= job.queueCap) return { _tag: "QueueFull" }\n  const existing = facts.existing()\n',
  ),
  plant(
    "an upload is reported before a closed gate",
    order,
    "acceptance.ts",
    "  const missing =\n",
    '  const early = job.retryOf === null ? refusalOf(job, facts) : undefined\n  if (early !== undefined) return { _tag: "UploadRefused", reason: early }\n  const missing =\n',
  ),
  plant(
    "a retry's upload is checked once more",
    order,
    "acceptance.ts",
    "job.retryOf === null ? refusalOf(job, facts) : undefined",
    "refusalOf(job, facts)",
  ),
  plant(
    "the queue cap admits one job too many",
    order,
    "acceptance.ts",
    "facts.unfinished() >= job.queueCap",
    "facts.unfinished() > job.queueCap",
  ),
  plant(
    "a full queue is reported before a reached cap",
    order,
    "acceptance.ts",
    "  const refusal = price === null",
    '  if (job.queueCap > 0 && facts.unfinished() >= job.queueCap) return { _tag: "QueueFull" }\n  const refusal = price === null',
  ),
  plant("no spend cap is asked for", order, "acceptance.ts", "spending.length === 0", "spending.length < 2"),
  plant(
    "caps are read for jobs without a price",
    reading,
    "acceptance.ts",
    "price === null ? undefined : overspending(job, price, facts)",
    "(facts.spending(), price === null ? undefined : overspending(job, price, facts))",
  ),
  plant(
    "a job that has begun no longer stands in the way of others",
    order,
    "acceptance.ts",
    '(unique.while === "unfinished" && status === "processing")',
    "false",
  ),
  plant(
    "a scope is kept for a millisecond too long",
    order,
    "acceptance.ts",
    "now < createdAt + unique.while",
    "now <= createdAt + unique.while",
  ),
  plant(
    "a scope decides before the idempotency key",
    order,
    "acceptance.ts",
    "  const existing = facts.existing()\n",
    '  const first = job.unique && facts.scopeHolder()\n  if (first && keepsScope(first, job, facts.now)) return { _tag: "Duplicate", job: first }\n  const existing = facts.existing()\n',
  ),
  plant("an upload that does not exist is ready", order, "acceptance.ts", '? "not_found" :', "? undefined :"),
  plant(
    "the board is read for jobs without a gate",
    reading,
    "acceptance.ts",
    "job.gate === null ? [] : missingPrerequisites(job.gate,",
    "facts.board() && job.gate === null ? [] : missingPrerequisites(job.gate!,",
  ),
  plant("unfinished jobs are counted without a cap", reading, "acceptance.ts", "job.queueCap > 0 && facts", "facts"),
  plant("the price is not kept with the job", asked, "acceptance.ts", "  price,\n", "  price: null,\n"),
  plant(
    "a reused key replays another request's job",
    once,
    "acceptance.ts",
    "existing.fingerprint === fingerprint",
    "true",
  ),
  plant(
    "an idempotency key is free again once its job was retried",
    once,
    "acceptance.ts",
    "existing !== undefined) return",
    "existing !== undefined && job.retryOf === null) return",
  ),
]
