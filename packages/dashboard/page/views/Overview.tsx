import { useState } from "preact/hooks"
import type { ResultOf } from "../../src/api/operations.ts"
import { call } from "../api.ts"
import { Chart } from "../components/Chart.tsx"
import { Badge, Card, Empty, Head, Meter, Table, Time } from "../components/parts.tsx"
import { Reason } from "../components/Reason.tsx"
import { Sparkline } from "../components/Sparkline.tsx"
import { count, counted, percent, span } from "../format.ts"
import { useLoaded } from "../hooks.ts"
import { linkTo } from "../router.ts"

type Overview = ResultOf<"overview">
type History = ResultOf<"history">

const sum = (numbers: ReadonlyArray<number>): number => numbers.reduce((all, each) => all + each, 0)

const Findings = ({ findings }: { readonly findings: Overview["findings"] }) =>
  findings === null || findings.length === 0 ? null : (
    <section class="findings" aria-label="What needs attention">
      {findings.map(({ check, findings: parts, remedy, status, summary }) => (
        <article key={check} class={status}>
          <p>
            <Badge tone={status === "problem" ? "bad" : "warn"}>{check}</Badge> <strong>{summary}</strong>
          </p>
          {parts.length > 0 && (
            <ul>
              {parts.slice(0, 5).map((part, index) => (
                <li key={index}>
                  {part.message}
                  {part.remedy !== null && <code>{part.remedy}</code>}
                </li>
              ))}
              {parts.length > 5 && <li class="faint">and {parts.length - 5} more: kiln doctor</li>}
            </ul>
          )}
          {remedy !== null && <code>{remedy}</code>}
        </article>
      ))}
    </section>
  )

const Figure = ({
  href,
  label,
  note,
  tone = "",
  value,
}: {
  readonly label: string
  readonly value: string
  readonly note?: string
  readonly href?: string
  readonly tone?: string
}) => {
  const content = (
    <>
      <span class="label">{label}</span>
      <span class={`value ${tone}`}>{value}</span>
      <span class="note">{note ?? "\u00a0"}</span>
    </>
  )
  return href === undefined ? (
    <div class="figure">{content}</div>
  ) : (
    <a class="figure" href={href}>
      {content}
    </a>
  )
}

const Figures = ({ overview }: { readonly overview: Overview }) => {
  const { queues, recent } = overview
  const more = overview.queue_is_partial ? "+" : ""
  const oldest = Math.max(0, ...queues.map((queue) => queue.oldest_ready_seconds))
  const oldestOf = queues.find((queue) => queue.oldest_ready_seconds === oldest)
  const failed = sum(recent.types.map((type) => type.failed))
  const done = sum(recent.types.map((type) => type.done))
  const hour = recent.complete ? "within an hour" : `of the last ${count(recent.jobs)} jobs`
  return (
    <div class="figures">
      <Figure
        label="Oldest ready"
        value={oldest === 0 ? "–" : span(oldest)}
        note={oldest === 0 ? "nothing waits" : `${oldestOf?.type ?? ""} ${oldestOf?.mode ?? ""}`}
        tone={oldest > 300 ? "bad" : ""}
      />
      <Figure
        label="Ready"
        value={count(sum(queues.map(({ ready }) => ready))) + more}
        href={linkTo(["jobs"], { status: "queued" })}
      />
      <Figure
        label="Running"
        value={count(sum(queues.map(({ running }) => running)))}
        note={`of ${count(sum(overview.workers.map(({ slots }) => slots ?? 0)))} slots a mode`}
        href={linkTo(["jobs"], { status: "processing" })}
      />
      <Figure
        label="Retrying or delayed"
        value={count(sum(queues.map(({ delayed, retrying }) => delayed + retrying)))}
        href={linkTo(["jobs"], { status: "processing" })}
      />
      <Figure label="Done" value={count(done)} note={hour} href={linkTo(["jobs"], { status: "done" })} />
      <Figure
        label="Failed"
        value={count(failed)}
        note={hour}
        tone={failed > 0 ? "bad" : ""}
        href={linkTo(["failures"])}
      />
    </div>
  )
}

const Charts = ({
  history,
  setSpan,
  shown,
}: {
  readonly history: History | undefined
  readonly shown: Span
  readonly setSpan: (span: Span) => void
}) => {
  const points = history?.points ?? []
  const toggle = (
    <div class="toggle" role="group" aria-label="Period">
      {(["1h", "24h"] as const).map((each) => (
        <button key={each} type="button" aria-pressed={shown === each} onClick={() => setSpan(each)}>
          {each}
        </button>
      ))}
    </div>
  )
  const at = points.map((point) => point.at)
  const of = (name: "ready" | "running" | "done" | "failed") => points.map((point) => point[name])
  const step = history !== undefined && history.step_seconds > 60 ? `${history.step_seconds / 60} min` : "minute"
  return (
    <div class="pair">
      <Card title={`Finished, per ${step}`} aside={toggle}>
        {points.length < 2 ? (
          <Empty>A chart appears after two minutes.</Empty>
        ) : (
          <Chart
            label="Finished jobs over time"
            at={at}
            series={[
              { label: "done", color: "--good", values: of("done") },
              { label: "failed", color: "--bad", values: of("failed") },
            ]}
          />
        )}
      </Card>
      <Card title="Queue">
        {points.length < 2 ? (
          <Empty>A chart appears after two minutes.</Empty>
        ) : (
          <Chart
            label="Ready and running jobs over time"
            at={at}
            series={[
              { label: "ready", color: "--warn", values: of("ready") },
              { label: "running", color: "--busy", values: of("running") },
            ]}
          />
        )}
      </Card>
    </div>
  )
}

const Queues = ({ history, overview }: { readonly overview: Overview; readonly history: History | undefined }) => {
  const { queues, recent } = overview
  const names = [...new Set([...queues, ...recent.types].map(({ mode, type }) => `${type} ${mode}`))].toSorted()
  if (names.length === 0) return <Empty>No unfinished jobs, and none that finished within an hour.</Empty>
  return (
    <Table
      label="Queues"
      head={[
        "Type",
        "Mode",
        "#Ready",
        "#Oldest",
        "#Running",
        "#Retrying",
        "#Delayed",
        "#Done",
        "#Failed",
        "#Waited p50 / p95 / p99",
        "#Ran p50 / p95 / p99",
        "Ready, 1 h",
        "Held back by",
      ]}
    >
      {names.map((name) => {
        const [type = "", mode = ""] = name.split(" ")
        const queue = queues.find((each) => each.type === type && each.mode === mode)
        const past = recent.types.find((each) => each.type === type && each.mode === mode)
        const three = (p: { readonly p50: number; readonly p95: number; readonly p99: number } | undefined) =>
          p === undefined ? "–" : `${span(p.p50)} / ${span(p.p95)} / ${span(p.p99)}`
        return (
          <tr key={name}>
            <th scope="row">
              <a href={linkTo(["jobs"], { type, mode })}>{type}</a>
            </th>
            <td>{mode}</td>
            <td class="number">{count(queue?.ready ?? 0)}</td>
            <td class="number">
              {queue === undefined || queue.oldest_ready_seconds === 0 ? "–" : span(queue.oldest_ready_seconds)}
            </td>
            <td class="number">{count(queue?.running ?? 0)}</td>
            <td class="number">{count(queue?.retrying ?? 0)}</td>
            <td class="number">{count(queue?.delayed ?? 0)}</td>
            <td class="number">{count(past?.done ?? 0)}</td>
            <td class="number">
              {past !== undefined && past.failed > 0 ? (
                <a class="bad" href={linkTo(["jobs"], { type, mode, status: "failed" })}>
                  {count(past.failed)}
                </a>
              ) : (
                "0"
              )}
            </td>
            <td class="number">{three(past?.waited)}</td>
            <td class="number">{three(past?.ran)}</td>
            <td>
              <Sparkline label={`Ready jobs of ${name} within an hour`} values={history?.types[name]?.ready ?? []} />
            </td>
            <td>
              {(queue?.held_back ?? []).map((why, index) => (
                <span key={index} class="warn">
                  {index > 0 && "; "}
                  <Reason why={why} />
                </span>
              ))}
            </td>
          </tr>
        )
      })}
    </Table>
  )
}

const Fairness = ({ recent }: { readonly recent: Overview["recent"] }) =>
  recent.projects.length === 0 ? (
    <Empty>No job finished within an hour.</Empty>
  ) : (
    <Table label="Shares of projects" head={["Project", "Slots", "#Share", "#Jobs", "#Waited p95"]}>
      {recent.projects.slice(0, 8).map((project) => (
        <tr key={project.project_id}>
          <th scope="row">
            <a href={linkTo(["jobs"], { project: project.project_id })}>{project.name ?? project.project_id}</a>
          </th>
          <td>
            <Meter share={project.share} label={percent(project.share)} />
          </td>
          <td class="number">{percent(project.share)}</td>
          <td class="number">{count(project.jobs)}</td>
          <td class="number">{span(project.waited_p95_seconds)}</td>
        </tr>
      ))}
    </Table>
  )

const FailuresByCode = ({ recent }: { readonly recent: Overview["recent"] }) =>
  recent.failures.length === 0 ? (
    <Empty>No failures.</Empty>
  ) : (
    <Table label="Failures" head={["Error", "Type", "#Jobs"]}>
      {recent.failures.slice(0, 8).map(({ count: jobs, error_code, type }) => (
        <tr key={`${type} ${error_code}`}>
          <th scope="row">
            <a href={linkTo(["jobs"], { type, error_code, status: "failed" })}>{error_code}</a>
          </th>
          <td>{type}</td>
          <td class="number">{count(jobs)}</td>
        </tr>
      ))}
    </Table>
  )

const Providers = ({ providers }: { readonly providers: Overview["providers"] }) =>
  providers.length === 0 ? (
    <Empty>No worker has live providers.</Empty>
  ) : (
    <Table label="Providers" head={["Provider", "State", "Since", "#Workers"]}>
      {providers.map((provider) => (
        <tr key={provider.provider}>
          <th scope="row">{provider.provider}</th>
          <td>
            <Badge>{provider.status}</Badge> {provider.reason}
          </td>
          <td>
            <Time at={provider.paused_since} />
          </td>
          <td class="number">
            {provider.paused_workers > 0
              ? `${provider.paused_workers} of ${provider.workers} paused`
              : provider.workers}
          </td>
        </tr>
      ))}
    </Table>
  )

const Spending = ({ spending }: { readonly spending: Overview["spending"] }) =>
  spending.length === 0 ? (
    <Empty>
      No spend caps. <a href={linkTo(["projects"])}>Projects</a> can have one.
    </Empty>
  ) : (
    <Table label="Spending" head={["Owner", "Cap", "#Spent", "#Reserved"]}>
      {spending.map((each) => {
        const cap = each.day_cap ?? each.month_cap
        const spent = each.day_cap === null ? each.month_spent : each.day_spent
        const share = cap === null || Number(cap) === 0 ? 0 : Number(spent) / Number(cap)
        return (
          <tr key={each.owner}>
            <th scope="row">{each.name ?? each.owner}</th>
            <td>
              <Meter share={share} label={percent(share)} />
            </td>
            <td class="number">
              {spent} of {cap} {each.currency}
              {each.day_cap === null ? " this month" : ""}
            </td>
            <td class="number">{each.reserved}</td>
          </tr>
        )
      })}
    </Table>
  )

const Others = ({ overview: { deliveries, schedules, switches, workers } }: { readonly overview: Overview }) => {
  const off = Object.entries(switches).filter(([, on]) => !on)
  const pending = sum(deliveries.map((each) => each.count))
  const repeated = sum(deliveries.map((each) => each.repeated))
  return (
    <dl class="facts">
      <dt>
        <a href={linkTo(["workers"])}>Workers</a>
      </dt>
      <dd>{workers.length === 0 ? <span class="bad">none is running</span> : counted(workers.length, "worker")}</dd>
      <dt>
        <a href={linkTo(["switches"])}>Switches</a>
      </dt>
      <dd>{off.length === 0 ? "all on" : `${off.map(([name]) => name).join(", ")} off`}</dd>
      <dt>
        <a href={linkTo(["schedules"])}>Schedules</a>
      </dt>
      <dd>
        {schedules.count === 0
          ? "none"
          : `${count(schedules.count)}, ${count(schedules.due)} due, ${count(schedules.paused)} paused`}
        {schedules.refused.length > 0 && (
          <span class="bad">, {counted(schedules.refused.length, "refused schedule")}</span>
        )}
      </dd>
      <dt>
        <a href={linkTo(["deliveries"])}>Deliveries</a>
      </dt>
      <dd>
        {pending === 0 ? "all confirmed" : `${counted(pending, "pending delivery").replace(/ys$/, "ies")}`}
        {repeated > 0 && <span class="bad">, {count(repeated)} failing</span>}
      </dd>
    </dl>
  )
}

type Span = "1h" | "24h"

export const OverviewView = ({ overview }: { readonly overview: Overview }) => {
  const [shown, setSpan] = useState<Span>("1h")
  const history = useLoaded(
    `history ${shown}`,
    (signal) => call("history", "GET /history", { query: { span: shown }, signal }),
    20_000,
  )
  const hour = useLoaded(
    "history 1h",
    (signal) => call("history", "GET /history", { query: { span: "1h" }, signal }),
    20_000,
  )
  const { recent } = overview
  return (
    <>
      <Head title="Overview" />
      <Findings findings={overview.findings} />
      <Figures overview={overview} />
      <Charts history={history.value} shown={shown} setSpan={setSpan} />
      <Card
        title="Queues"
        aside={recent.complete ? "finished within an hour" : `the last ${count(recent.jobs)} finished jobs`}
      >
        <Queues overview={overview} history={hour.value} />
      </Card>
      <div class="pair even">
        <Card title="Failures" aside={<a href={linkTo(["failures"])}>all</a>}>
          <FailuresByCode recent={recent} />
        </Card>
        <Card title="Fairness" aside="slots by project, 1 h">
          <Fairness recent={recent} />
        </Card>
      </div>
      <div class="trio even">
        <Card title="Providers">
          <Providers providers={overview.providers} />
        </Card>
        <Card title="Spending">
          <Spending spending={overview.spending} />
        </Card>
        <Card title="Installation">
          <Others overview={overview} />
        </Card>
      </div>
    </>
  )
}
