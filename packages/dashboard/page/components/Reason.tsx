import type { ResultOf } from "../../src/api/operations.ts"
import { count } from "@kiln/pages/ui"
import { ago } from "../format.ts"
import { linkTo } from "../router.ts"

type Waiting = ResultOf<"readJob">["waiting_for"][number]

const lacks: Readonly<Record<string, string>> = {
  none: "no worker is running",
  kind: "no running worker knows this type",
  version: "no running worker runs this version of the type",
  mode: "no running worker has its live providers",
  children: "no running worker serves the type of its children",
}

const until = ({ until: at }: Waiting, word: string): string => (at === null ? "" : `, ${word} ${ago(at)}`)

const taken = ({ count: running, limit }: Waiting): string => `${count(running ?? 0)} of ${count(limit ?? 0)} run`

const texts: Readonly<Record<string, (why: Waiting) => string>> = {
  kind_paused: ({ subject }) => `the type ${subject} is paused`,
  switch_off: ({ cause, subject }) =>
    cause === "settings" ? `the switch ${subject} is forced off by settings` : `the switch ${subject} is off`,
  price_missing: ({ subject }) => `the price ${subject} is not active`,
  spend_cap: ({ subject }) => `the spend cap of its ${subject}`,
  no_worker: ({ cause }) => lacks[cause ?? ""] ?? "no worker serves it",
  provider_paused: (why) => `the provider ${why.subject ?? ""} is paused (${why.cause})${until(why, "next try")}`,
  kind_limit: (why) => `the limit of the type ${why.subject}: ${taken(why)}`,
  project_limit: (why) => `the limit of its project: ${taken(why)}`,
  project_share: (why) => `its project's share of all slots: ${taken(why)}`,
  slots: (why) => `a free slot: ${taken(why)}`,
  rate: (why) => `the rate of ${why.subject}: ${count(why.count ?? 0)} ahead`,
  start_delayed: (why) => `its start${until(why, "").replace(",", "")}`,
  retry: (why) => `its next attempt${why.cause === null ? "" : ` after ${why.cause}`}${until(why, "")}`,
  children: (why) => `${count(why.count ?? 0)} unfinished children`,
  after: (why) => `${count(why.count ?? 0)} of ${count(why.limit ?? 0)} prerequisites`,
  signal: (why) => `the signal ${why.subject}${until(why, "timeout")}`,
  sleep: (why) => `its sleep ${why.subject}${until(why, "until")}`,
  isolation: (why) => `a turn alone, because its workers were lost${until(why, "next try")}`,
  store_unavailable: (why) => `the store, which did not answer${until(why, "next try")}`,
  blobs_unavailable: (why) => `the blob store, which did not answer${until(why, "next try")}`,
  worker_lost: () => "another worker: the lease of the last one has ended",
  line: (why) => (why.count === 0 ? "its turn: next in line" : `its turn: ${count(why.count ?? 0)} ahead`),
}

/** The reasons by which jobs can be filtered. */
export const reasonNames: ReadonlyArray<string> = Object.keys(texts)

const places: Readonly<Record<string, ReadonlyArray<string>>> = {
  kind_paused: ["types"],
  kind_limit: ["types"],
  switch_off: ["switches"],
  price_missing: ["prices"],
  spend_cap: ["projects"],
  project_limit: ["projects"],
  no_worker: ["workers"],
  provider_paused: ["workers"],
  slots: ["workers"],
}

/** What a job waits for, with a link to the place where an operator can change it. */
export const Reason = ({ why }: { readonly why: Waiting }) => {
  const text = texts[why.reason]?.(why) ?? why.reason
  const place = places[why.reason]
  return place === undefined ? <span>{text}</span> : <a href={linkTo(place)}>{text}</a>
}
