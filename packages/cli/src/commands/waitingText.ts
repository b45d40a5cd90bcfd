import { maxAhead, type WaitingFor } from "@kiln/core/domain"
import { priceCommand } from "./meterFlags.ts"
import { formatTime } from "../Output.ts"

/** Formats a reason as `--json` prints it. */
export const waitingFields = ({ cause, count, limit, reason, subject, until }: WaitingFor) => ({
  reason,
  subject,
  cause,
  until: formatTime(until),
  count,
  limit,
})

const workerLacks: Readonly<Record<string, string>> = {
  none: "no worker is running",
  kind: "no running worker knows this type",
  version: "no running worker runs this version of the type",
  mode: "no running worker runs this type in this mode: a live job needs its providers",
  children: "no running worker serves the type of its children live",
}

const next = ({ until }: WaitingFor, word: string): string => (until === null ? "" : `, ${word} ${formatTime(until)}`)

const rateText = (rate: string | null): string => {
  const [, limit, perMs] = /^(\d+)\/([\d.]+)ms$/.exec(rate ?? "") ?? []
  return limit === undefined ? "" : `, ${limit} in ${Number(perMs) / 1_000} s`
}

const ahead = ({ count }: WaitingFor): string => {
  if (count === null || count === 0) return "next in line"
  return count >= maxAhead
    ? `${maxAhead} or more jobs are ahead`
    : `${count} ${count === 1 ? "job is" : "jobs are"} ahead`
}

const forChildren = ({ cause }: WaitingFor): string => (cause === "children" ? ", which its children need" : "")

const texts: Readonly<Record<WaitingFor["reason"], (why: WaitingFor) => string>> = {
  kind_paused: ({ subject }) => `type ${subject} is paused: kiln queue resume ${subject}`,
  switch_off: (why) =>
    why.cause === "settings"
      ? `switch ${why.subject} is forced off by the settings of every worker: KILN_SWITCH_${why.subject?.toUpperCase()}`
      : `switch ${why.subject} is off${forChildren(why)}: kiln switch on ${why.subject}`,
  price_missing: (why) =>
    `price ${why.subject} is not active, or lacks a meter${forChildren(why)}: ${priceCommand(String(why.subject))}, then kiln price activate ${why.subject}`,
  spend_cap: (why) =>
    `the spend cap of its ${why.subject}, which its children could pass: kiln ${why.subject} cap shows and raises it`,
  no_worker: ({ cause, subject }) => `worker for ${subject}: ${workerLacks[cause ?? ""] ?? "none serves it"}`,
  provider_paused: (why) => `provider ${why.subject ?? "of the type"}: ${why.cause}${next(why, "next try")}`,
  kind_limit: ({ count, limit, subject }) => `concurrency limit of type ${subject}: ${count} of ${limit} run`,
  project_limit: ({ count, limit, subject }) => `concurrency limit of project ${subject}: ${count} of ${limit} run`,
  project_share: ({ count, limit, subject }) =>
    `share of project ${subject} in all slots: ${count} of ${limit} are taken`,
  slots: ({ count, limit }) =>
    `a free slot: ${count} of ${limit} are taken; raise KILN_CONCURRENCY or start more workers`,
  rate: (why) => `rate of ${why.subject}${rateText(why.cause)}: ${ahead(why)}`,
  start_delayed: (why) => `its start${next(why, "at").replace(",", "")}`,
  retry: (why) => `retry${why.cause === null ? "" : ` after ${why.cause}`}${next(why, "next try")}`,
  children: (why) => `children: ${why.count} unfinished${next(why, "next look")}`,
  after: (why) => `${why.count} of ${why.limit} prerequisites${next(why, "next look")}`,
  signal: (why) => `signal ${why.subject}${next(why, "timeout")}`,
  sleep: (why) => `its sleep ${why.subject}${next(why, "until")}`,
  isolation: (why) => `a turn alone, because its workers were lost${next(why, "next try")}`,
  store_unavailable: (why) => `the store, which did not answer${next(why, "next try")}`,
  blobs_unavailable: (why) => `the blob store, which did not answer${next(why, "next try")}`,
  worker_lost: () => "another worker: the lease of the last one has ended",
  line: (why) => `its turn: ${ahead(why)}`,
}

/** Formats a reason for people, with the command that ends it where there is one. */
export const waitingText = (why: WaitingFor): string => texts[why.reason](why)
