import type { Job } from "@kiln/core/domain"
import type { StoredFile } from "@kiln/core/ports"
import { Effect } from "effect"
import { Answer } from "./Answer.ts"
import type { ServiceSettings } from "./Service.ts"

/** Bugs to be planted: a service that has one must not pass the tables. */

/** Rewrites responses on their way to the tests, as if the service had produced them. */
const tampering = (
  change: (answer: Answer) =>
    | {
        readonly status?: number
        readonly text?: string
        readonly without?: string
        readonly header?: readonly [string, string]
      }
    | undefined,
): ServiceSettings => ({
  tamper: (answer) => {
    const changed = change(answer)
    if (changed === undefined) return answer
    const { wire } = answer
    const headers = wire.headers.filter(([name]) => name.toLowerCase() !== changed.without)
    return new Answer({
      ...wire,
      status: changed.status ?? wire.status,
      headers: changed.header === undefined ? headers : [...headers, changed.header],
      body: changed.text === undefined ? wire.body : Buffer.from(changed.text),
    })
  },
})

const replacing = (from: string | RegExp, to: string) =>
  tampering((answer) =>
    answer.isJson && answer.text.search(from) >= 0 ? { text: answer.text.replace(from, to) } : undefined,
  )

/** No bug at all: only the message differs, which is for people. */
export const otherWording = replacing('"message":"', '"message":"Well: ')

/** Wrong messages, each with one changed detail. */
export const wordingBugs: Readonly<Record<string, ServiceSettings>> = {
  "a wrong error code": replacing('"job_not_found"', '"not_found"'),
  "a wrong status": tampering((answer) => (answer.code === "upload_not_ready" ? { status: 404 } : undefined)),
  "a wrong error type": replacing('"type":"idempotency_error"', '"type":"invalid_request_error"'),
  "param is missing": replacing('"param":null,', ""),
  "an additional field": replacing('"object":"job"', '"object":"job","kind":"x"'),
  "a renamed field": replacing('"warning_code"', '"warning"'),
  "a price that is a number": replacing('"amount":"0"', '"amount":0'),
  "a request id that differs from the header": replacing(
    /"request_id":"req_.{26}"/,
    '"request_id":"req_00000000000000000000000000"',
  ),
  "no Retry-After on polls": tampering((answer) => (answer.status === 200 ? { without: "retry-after" } : undefined)),
  "no nosniff": tampering(() => ({ without: "x-content-type-options" })),
  "no challenge": tampering((answer) => (answer.status === 401 ? { without: "www-authenticate" } : undefined)),
  "no Allow": tampering((answer) => (answer.status === 405 ? { without: "allow" } : undefined)),
  "replays without their header": tampering(() => ({ without: "idempotency-replayed" })),
  "CORS everywhere": tampering(() => ({
    without: "access-control-allow-origin",
    header: ["Access-Control-Allow-Origin", "*"],
  })),
  "a 500 for a 400": tampering((answer) => (answer.code === "invalid_json" ? { status: 500 } : undefined)),
  "404s that repeat the path": tampering((answer) =>
    answer.code === "not_found"
      ? { text: answer.text.replace('"message":"', '"message":"job_00000000000000000000000000: ') }
      : undefined,
  ),
}

/** What a service does wrongly, each by a port that breaks one of its promises. */
export const portBugs: Readonly<Record<string, ServiceSettings>> = {
  "two jobs for one idempotency key": {
    wrap: ({ jobs }) => {
      let count = 0
      return {
        jobs: {
          ...jobs,
          createJobs: (items) =>
            jobs.createJobs(items.map((item) => ({ ...item, idempotencyKey: `${item.idempotencyKey}-${count++}` }))),
        },
      }
    },
  },
  "any request replays a key": {
    wrap: ({ jobs }) => ({
      jobs: {
        ...jobs,
        createJobs: (items) => jobs.createJobs(items.map((item) => ({ ...item, fingerprint: "same" }))),
      },
    }),
  },
  "refused requests bind their key": {
    wrap: ({ jobs }) => {
      const bound = new Set<string>()
      return {
        jobs: {
          ...jobs,
          createJobs: (items) =>
            Effect.map(jobs.createJobs(items), (outcomes) =>
              outcomes.map((outcome, at) => {
                const name = `${items[at]?.keyId} ${items[at]?.idempotencyKey}`
                if (outcome._tag === "Created" && bound.has(name)) return { _tag: "KeyReused" as const }
                bound.add(name)
                return outcome
              }),
            ),
        },
      }
    },
  },
  "a used upload that looks unknown": {
    wrap: ({ jobs }) => ({
      jobs: {
        ...jobs,
        createJobs: (items) =>
          Effect.map(jobs.createJobs(items), (outcomes) =>
            outcomes.map((outcome) =>
              outcome._tag === "UploadRefused" && outcome.reason === "already_used"
                ? { _tag: "UploadRefused" as const, reason: "not_found" as const }
                : outcome,
            ),
          ),
      },
    }),
  },
  "any key reads any job": {
    wrap: ({ jobs }) => {
      const owners = new Map<string, Job>()
      return {
        jobs: {
          ...jobs,
          createJobs: (items) =>
            Effect.tap(jobs.createJobs(items), (outcomes) =>
              Effect.sync(() => {
                for (const outcome of outcomes) if (outcome._tag === "Created") owners.set(outcome.job.id, outcome.job)
              }),
            ),
          pollJobs: (items) =>
            jobs.pollJobs(
              items.map((item) => ({ ...item, principal: { ...item.principal, ...pick(owners.get(item.jobId)) } })),
            ),
        },
      }
    },
  },
  "deletion that only says so": {
    wrap: ({ jobs }) => ({
      jobs: {
        ...jobs,
        eraseJobs: (items) => Effect.succeed(items.map(() => ({ _tag: "Erased" as const, purges: [] }))),
      },
    }),
  },
  "files that outlive their deletion": {
    wrap: ({ blobs, jobs }) => {
      const found = new Map<string, StoredFile>()
      return {
        blobs: { ...blobs, remove: () => Effect.void },
        jobs: {
          ...jobs,
          findFile: (id) =>
            Effect.map(jobs.findFile(id), (file) => {
              if (file !== undefined) found.set(id, file)
              return found.get(id)
            }),
        },
      }
    },
  },
  "revoked and expired keys that work": {
    wrap: ({ keys }) => ({
      keys: {
        ...keys,
        findKey: (hash) =>
          Effect.map(keys.findKey(hash), (record) => record && { ...record, revokedAt: null, expiresAt: null }),
      },
    }),
  },
  "a finished upload that looks unfinished": {
    wrap: ({ uploads }) => ({
      uploads: {
        ...uploads,
        findUpload: (id) =>
          Effect.map(
            uploads.findUpload(id),
            (upload) => upload && { ...upload, file: null, jobId: null, claimedUntil: null },
          ),
        claimUpload: (request) =>
          Effect.map(uploads.claimUpload(request), (outcome) =>
            outcome._tag === "Refused" ? { _tag: "NotFound" as const } : outcome,
          ),
      },
    }),
  },
  "unlimited transfers": {
    wrap: ({ uploads }) => ({
      uploads: {
        ...uploads,
        findUpload: (id) => Effect.map(uploads.findUpload(id), (upload) => upload && { ...upload, transfers: 0 }),
        claimUpload: (request) => uploads.claimUpload({ ...request, maxTransfers: 1_000 }),
      },
    }),
  },
  "failed jobs without an error code": {
    wrap: ({ jobs }) => ({
      jobs: {
        ...jobs,
        failJobs: (items) => jobs.failJobs(items.map((item) => ({ ...item, errorCode: "internal_error" }))),
      },
    }),
  },
}

const pick = (job: Job | undefined) =>
  job === undefined ? {} : { keyId: job.keyId, projectId: job.projectId, mode: job.mode }
