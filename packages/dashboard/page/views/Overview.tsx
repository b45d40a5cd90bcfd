import { useState } from "preact/hooks"
import type { ResultOf } from "../../src/api/operations.ts"
import { call } from "../api.ts"
import { Chart } from "../components/Chart.tsx"
import { Card, Empty, Head, Table } from "../components/parts.tsx"
import { Reason } from "../components/Reason.tsx"
import { Sparkline } from "../components/Sparkline.tsx"
import { Badge, count, span } from "@kiln/pages/ui"
import { useLoaded } from "../hooks.ts"
import { linkTo } from "../router.ts"
import { FailuresByCode, Fairness, Others, Providers, Spending } from "./overviewCards.tsx"

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
  const marks = (history?.deploys ?? []).map((deploy) => ({ at: deploy.at, label: `version ${deploy.version}` }))
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
            marks={marks}
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
            marks={marks}
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
              <Sparkline
                label={`Ready jobs of ${name} within an hour`}
                values={history?.types[name]?.ready ?? []}
                marks={(history?.deploys ?? []).map(
                  ({ at }) => history?.points.findIndex((point) => point.at === at) ?? 0,
                )}
              />
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
