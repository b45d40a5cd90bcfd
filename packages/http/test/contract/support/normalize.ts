import { createHash } from "node:crypto"
import type { Answer } from "./Answer.ts"

const MASKS: ReadonlyArray<readonly [RegExp, string]> = [
  [/\b(job|upl|fil|key|prj|req)_[0-7][0-9a-hjkmnp-tv-z]{25}(?![0-9a-z])/gi, "$1_#"],
  [/\bkiln_(test|live)_[0-9A-Za-z]{49}/g, "kiln_$1_#"],
  [/\be=[0-9]+&k=[a-z0-9_-]+&s=[\w-]{43}/g, "e=#&k=#&s=#"],
  [/\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, "<time>"],
  [/\b([rt])=\d+/g, "$1=#"],
  [/(127\.0\.0\.1|localhost):\d+/g, "<address>"],
  // One service is two processes, and each has a worker.
  [/"workers":\d+/g, '"workers":#'],
]

/** A text without what legitimately differs between two runs: ids, times, signatures, ports. */
export const masked = (text: string): string => MASKS.reduce((rest, [mask, by]) => rest.replaceAll(mask, by), text)

const IGNORED = new Set(["date", "connection", "keep-alive", "x-request-id"])

/** How long a bucket takes to fill again depends on the moment. */
const isMeasured = (answer: Answer, header: string) =>
  answer.code === "rate_limited" && header.toLowerCase() === "retry-after"

/** An answer as two stores must give it alike. */
export const normalized = (answer: Answer) => ({
  status: answer.status,
  interim: answer.wire.interim,
  headers: answer.wire.headers
    .map(([name, value]) => [name.toLowerCase(), isMeasured(answer, name) ? "#" : masked(value)] as const)
    .filter(([name]) => !IGNORED.has(name))
    .toSorted(([a], [b]) => a.localeCompare(b)),
  body: answer.isJson
    ? masked(answer.text)
    : `${answer.wire.body.length} bytes ${createHash("sha256").update(answer.wire.body).digest("hex")}`,
})
