import { useState } from "preact/hooks"
import type { ResultOf } from "../../src/api/operations.ts"
import { call, RequestFailed } from "../api.ts"
import { Action, type Question } from "../components/Confirm.tsx"
import { reasonNames } from "../components/Reason.tsx"
import { Empty, Failure, Head, Shown, Table, Time } from "../components/parts.tsx"
import { Badge, count, counted, span } from "@kiln/pages/ui"
import { shortId, secondsBetween } from "../format.ts"
import { useLoaded } from "../hooks.ts"
import { linkTo } from "../router.ts"
import { useMay } from "../session.ts"

type Query = Readonly<Record<string, string>>
type Listed = ResultOf<"listJobs">["jobs"][number]

const fields = [
  { name: "type", label: "Type", width: 15 },
  { name: "project", label: "Project", width: 11 },
  { name: "error_code", label: "Error", width: 14 },
  { name: "tag", label: "Tag", width: 8 },
  { name: "key", label: "Key", width: 11 },
] as const

const ages: ReadonlyArray<readonly [value: string, label: string, seconds: number]> = [
  ["1h", "last hour", 3_600],
  ["24h", "last day", 86_400],
  ["7d", "last week", 604_800],
]

/** The filter that the API understands. An age is turned into a time. */
const filterOf = ({ age, ...query }: Query) => {
  const seconds = ages.find(([value]) => value === age)?.[2]
  const from =
    seconds === undefined
      ? {}
      : { from: new Date(Math.floor(Date.now() / 60_000) * 60_000 - seconds * 1_000).toISOString() }
  return { ...from, ...query } as Record<string, string>
}

const Select = ({
  label,
  name,
  options,
  value,
}: {
  readonly name: string
  readonly label: string
  readonly value: string
  readonly options: ReadonlyArray<readonly [value: string, label: string]>
}) => (
  <label>
    <span>{label}</span>
    <select name={name} value={value}>
      <option value="">any</option>
      {options.map(([each, text]) => (
        <option key={each} value={each}>
          {text}
        </option>
      ))}
    </select>
  </label>
)

const idLength = "job_".length + 26
const reasons = reasonNames.map((each) => [each, each.replaceAll("_", " ")] as const)
const statuses = ["queued", "processing", "done", "failed"].map((each) => [each, each] as const)
const modes = ["live", "sandbox"].map((each) => [each, each] as const)

const Filters = ({ query }: { readonly query: Query }) => {
  const apply = (event: Event): void => {
    event.preventDefault()
    const form = new FormData(event.currentTarget as HTMLFormElement)
    const given = Object.fromEntries(
      [...form].map(([name, value]) => [name, typeof value === "string" ? value.trim() : ""]),
    )
    const { id = "" } = given
    location.hash = id.length === idLength ? linkTo(["jobs", id]) : linkTo(["jobs"], given)
  }
  return (
    <form class="filters" onSubmit={apply} key={JSON.stringify(query)}>
      <Select name="status" label="Status" value={query["status"] ?? ""} options={statuses} />
      <Select name="mode" label="Mode" value={query["mode"] ?? ""} options={modes} />
      <Select
        name="age"
        label="Created"
        value={query["age"] ?? ""}
        options={ages.map(([value, label]) => [value, label] as const)}
      />
      <Select name="waiting_for" label="Waits for" value={query["waiting_for"] ?? ""} options={reasons} />
      {fields.map(({ label, name, width }) => (
        <label key={name}>
          <span>{label}</span>
          <input name={name} defaultValue={query[name] ?? ""} size={width} autocomplete="off" spellcheck={false} />
        </label>
      ))}
      <label>
        <span>Job id, or part</span>
        <input
          name="id"
          defaultValue={query["id"] ?? ""}
          size={13}
          placeholder="job_…"
          autocomplete="off"
          spellcheck={false}
        />
      </label>
      {(["from", "to"] as const).map((name) =>
        query[name] === undefined ? null : (
          <label key={name}>
            <span>{name === "from" ? "Created since" : "Created before"}</span>
            <input name={name} defaultValue={query[name]} size={22} />
          </label>
        ),
      )}
      <div class="buttons">
        <button type="submit" class="primary">
          Show
        </button>
        {Object.keys(query).length > 0 && <a href={linkTo(["jobs"])}>Clear</a>}
      </div>
    </form>
  )
}

const flagNames: Readonly<Record<string, string>> = { error_code: "error-code" }

/** The command that does the same; none for filters that only the page has. */
const commandOf = (verb: string, filter: Record<string, string>) =>
  "waiting_for" in filter || "id" in filter
    ? {}
    : {
        command: [
          `kiln job ${verb}`,
          ...Object.entries(filter)
            .filter(([name]) => name !== "status")
            .map(([name, value]) => `--${flagNames[name] ?? name} ${value}`),
          "--yes",
        ].join(" "),
      }

interface Verb {
  readonly word: "cancel" | "retry" | "promote"
  readonly title: string
  readonly past: string
  readonly statuses: ReadonlyArray<string>
  readonly meaning: string
}

const cancelVerb: Verb = {
  word: "cancel",
  title: "Cancel",
  past: "canceled",
  statuses: ["queued", "processing"],
  meaning: "They fail with canceled_by_operator, and are not charged. Workers that run them stop within seconds.",
}
const retryVerb: Verb = {
  word: "retry",
  title: "Retry",
  past: "retried",
  statuses: ["failed"],
  meaning: "Each gets a new job with the same request, at the current price.",
}
const promoteVerb: Verb = {
  word: "promote",
  title: "Promote",
  past: "promoted",
  statuses: ["queued", "processing"],
  meaning:
    "They no longer wait for their delayed start or their next attempt, and come after the jobs that are ready already.",
}

type Request = NonNullable<Parameters<typeof call<"cancelJobs">>[2]>["payload"]

const change = (word: Verb["word"], payload: NonNullable<Request>) => {
  switch (word) {
    case "cancel":
      return call("cancelJobs", "POST /bulk/cancel", { payload })
    case "retry":
      return call("retryJobs", "POST /bulk/retry", { payload })
    case "promote":
      return call("promoteJobs", "POST /bulk/promote", { payload })
  }
}

/** Repeats the request until all matching jobs were changed. */
const runAll = async (
  word: Verb["word"],
  filter: Record<string, string>,
  past: string,
  tell: (text: string) => void,
) => {
  let [changed, skipped] = [0, 0]
  const refusals = new Map<string, number>()
  let after: string | null = null
  do {
    const part: ResultOf<"cancelJobs"> = await change(word, {
      filter,
      dry_run: false,
      ...(after !== null && { after }),
    })
    changed += part.changed
    skipped += part.skipped
    for (const refused of part.refused)
      refusals.set(refused.message, (refusals.get(refused.message) ?? 0) + refused.count)
    after = part.next
    tell(`${counted(changed, "job")} ${past} so far…`)
  } while (after !== null)
  const notes = [
    ...(skipped > 0 ? [`${count(skipped)} had changed meanwhile`] : []),
    ...[...refusals].map(([message, times]) => `${count(times)} refused: ${message}`),
  ]
  return [`${counted(changed, "job")} ${past}.`, ...notes].join(" ")
}

/** Asks about all jobs that match a filter: first a dry run says how many there are. */
const askAll = async (
  { meaning, past, statuses: of, title, word }: Verb,
  given: Record<string, string>,
): Promise<Question> => {
  const { matched, complete, to } = await change(word, { filter: given, dry_run: true })
  const filter = { ...given, to }
  const jobs = `${complete ? "" : "at least "}${counted(matched, "job")}`
  return {
    title: `${title} ${jobs}?`,
    body: (
      <>
        <p>{meaning}</p>
        <p class="faint">
          All {of.join(" and ")} jobs that match{" "}
          {Object.entries(given)
            .map(([name, value]) => `${name} ${value}`)
            .join(", ")}
          , created before now.
        </p>
      </>
    ),
    ...commandOf(word, given),
    verb: `${title} ${jobs}`,
    isEmpty: matched === 0,
    isDangerous: word === "cancel",
    run: (tell) => runAll(word, filter, past, tell),
  }
}

const askCancelAll = (filter: Record<string, string>) => askAll(cancelVerb, filter)
const askPromoteAll = (filter: Record<string, string>) => askAll(promoteVerb, filter)
export const askRetryAll = (filter: Record<string, string>) => askAll(retryVerb, filter)

const Bulk = ({ onDone, query }: { readonly query: Query; readonly onDone: () => void }) => {
  const filter = filterOf(query)
  const isEmpty = Object.keys(query).every((name) => name === "status")
  const { status } = query
  const may = useMay("operate")
  if (!may) return null
  const title = isEmpty ? "Set a filter to change all jobs that match it." : undefined
  return (
    <span title={title}>
      {(status === undefined || cancelVerb.statuses.includes(status)) && (
        <Action ask={() => askCancelAll(filter)} onDone={onDone} disabled={isEmpty}>
          Cancel all matching
        </Action>
      )}{" "}
      {(status === undefined || promoteVerb.statuses.includes(status)) && (
        <Action ask={() => askPromoteAll(filter)} onDone={onDone} disabled={isEmpty}>
          Promote all matching
        </Action>
      )}{" "}
      {(status === undefined || status === "failed") && (
        <Action ask={() => askRetryAll(filter)} onDone={onDone} disabled={isEmpty}>
          Retry all matching
        </Action>
      )}
    </span>
  )
}

/** What an unfinished job does, as far as the list tells. */
const stateOf = (job: Listed): string => {
  if (job.status === "queued")
    return job.claimable_at !== null && secondsBetween(job.claimable_at, Date.now()) < -1 ? "delayed" : "queued"
  return job.status
}

const JobRows = ({ jobs }: { readonly jobs: ReadonlyArray<Listed> }) => (
  <Table label="Jobs" head={["Job", "Status", "Type", "Code", "Project", "Mode", "#Attempts", "Created", "#Took"]}>
    {jobs.map((job) => (
      <tr key={job.job_id}>
        <th scope="row">
          <a class="id" href={linkTo(["jobs", job.job_id])} title={job.job_id}>
            {shortId(job.job_id)}
          </a>
        </th>
        <td>
          <Badge>{stateOf(job)}</Badge>
        </td>
        <td>{job.type}</td>
        <td>{job.error_code ?? job.warning_code}</td>
        <td>{job.project_name ?? <span class="id">{shortId(job.project_id)}</span>}</td>
        <td>{job.mode}</td>
        <td class="number">
          {job.attempts}
          {job.lost_workers > 0 ? `, ${job.lost_workers} lost` : ""}
        </td>
        <td>
          <Time at={job.created_at} />
        </td>
        <td class="number">{job.finished_at === null ? "–" : span(secondsBetween(job.created_at, job.finished_at))}</td>
      </tr>
    ))}
  </Table>
)

type LookedAt = ResultOf<"listJobs">["looked_at"]

/** What a filter has looked at that is decided job by job: all jobs would take too long. */
const Looked = ({ isComplete, looked }: { readonly looked: LookedAt; readonly isComplete: boolean }) => {
  if (looked === null) return null
  return (
    <p class="faint" role="status">
      {isComplete ? (
        `Looked at all ${counted(looked.jobs, "job")} that may match.`
      ) : (
        <>
          Looked at {counted(looked.jobs, "job")}
          {looked.back_to !== null && (
            <>
              , back to <Time at={looked.back_to} />
            </>
          )}
          . Further jobs were not looked at yet.
        </>
      )}
    </p>
  )
}

/** Jobs of a full page. */
const pageSize = 50

export const JobsView = ({ query }: { readonly query: Query }) => {
  const filter = filterOf(query)
  const [more, setMore] = useState<{
    readonly of: string
    readonly jobs: ReadonlyArray<Listed>
    readonly next: string | null
    readonly looked: LookedAt
  }>()
  const [failure, setFailure] = useState<RequestFailed>()
  const key = `jobs ${JSON.stringify(query)}`
  const followed = more?.of === key ? more : undefined
  const [rare, setRare] = useState<string>()
  const isRare = rare === key
  const loaded = useLoaded(
    key,
    async (signal) => {
      const page = await call("listJobs", "GET /jobs", { query: filter, signal })
      if (page.looked_at !== null || (page.next !== null && page.jobs.length < pageSize)) setRare(key)
      return page
    },
    // Further pages belong to the first one as it was, and a filter that few jobs match takes long to look for them.
    followed === undefined && !isRare ? 5_000 : undefined,
  )
  const load = async (after: string, before: LookedAt): Promise<void> => {
    setFailure(undefined)
    try {
      const page = await call("listJobs", "GET /jobs", { query: { ...filter, after } })
      const looked =
        page.looked_at === null ? null : { ...page.looked_at, jobs: page.looked_at.jobs + (before?.jobs ?? 0) }
      setMore({ of: key, jobs: [...(followed?.jobs ?? []), ...page.jobs], next: page.next, looked })
    } catch (error) {
      if (error instanceof RequestFailed) setFailure(error)
    }
  }
  return (
    <>
      <Head title="Jobs">
        <Bulk query={query} onDone={loaded.reload} />
      </Head>
      <Filters query={query} />
      <section class="card">
        <Shown loaded={loaded}>
          {(first) => {
            const jobs = [...first.jobs, ...(followed?.jobs ?? [])]
            const next = followed === undefined ? first.next : followed.next
            const looked = followed === undefined ? first.looked_at : followed.looked
            return (
              <>
                {jobs.length > 0 ? (
                  <JobRows jobs={jobs} />
                ) : (
                  <Empty>{next === null ? "No jobs match." : "No jobs match so far."}</Empty>
                )}
                <Looked looked={looked} isComplete={next === null} />
                {failure !== undefined && <Failure error={failure} />}
                {next !== null && (
                  <div class="more">
                    <button type="button" onClick={() => void load(next, looked)}>
                      {jobs.length === 0 ? "Look further back" : "Show more"}
                    </button>
                  </div>
                )}
              </>
            )
          }}
        </Shown>
      </section>
    </>
  )
}
