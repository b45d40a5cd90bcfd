import type { ResultOf } from "../../src/api/operations.ts"
import { call } from "../api.ts"
import { Action, type Question } from "../components/Confirm.tsx"
import { Empty, Head, Shown, Table } from "../components/parts.tsx"
import { Reason } from "../components/Reason.tsx"
import { Badge, count, counted, span } from "@kiln/pages/ui"
import { useLoaded } from "../hooks.ts"
import { linkTo } from "../router.ts"
import { useMay } from "../session.ts"

type Kind = ResultOf<"listKinds">[number]

const waitingOf = ({ queues }: Kind): number =>
  queues.reduce((sum, { delayed, ready, retrying }) => sum + ready + delayed + retrying, 0)

const askPause = (kind: Kind): Question => ({
  title: `Pause ${kind.type}: ${counted(waitingOf(kind), "waiting job")} will not start`,
  body: <p>New jobs are accepted and wait. Running jobs go on. It takes effect within a second.</p>,
  command: `kiln queue pause ${kind.type}`,
  verb: "Pause the type",
  isDangerous: true,
  run: async () => {
    await call("pauseKind", "POST /types/:id/pause", { id: kind.type })
    return undefined
  },
})

const askResume = (kind: Kind): Question => ({
  title: `Resume ${kind.type}: ${counted(waitingOf(kind), "waiting job")} may start`,
  command: `kiln queue resume ${kind.type}`,
  verb: "Resume the type",
  run: async () => {
    await call("resumeKind", "POST /types/:id/resume", { id: kind.type })
    return undefined
  },
})

const askPauseAll = (kinds: ReadonlyArray<Kind>): Question => {
  const running = kinds.filter(({ paused }) => !paused)
  const waiting = running.reduce((sum, kind) => sum + waitingOf(kind), 0)
  return {
    title: `Pause all ${counted(running.length, "type")}: ${counted(waiting, "waiting job")} will not start`,
    body: <p>New jobs are accepted and wait. Running jobs go on.</p>,
    command: running.map(({ type }) => `kiln queue pause ${type}`).join("; "),
    verb: "Pause all types",
    isDangerous: true,
    run: async () => {
      for (const { type } of running) await call("pauseKind", "POST /types/:id/pause", { id: type })
      return undefined
    },
  }
}

export const TypesView = () => {
  const may = useMay("operate")
  const loaded = useLoaded("types", (signal) => call("listKinds", "GET /types", { signal }))
  const kinds = loaded.value ?? []
  return (
    <>
      <Head title="Types">
        {may && kinds.some(({ paused }) => !paused) && (
          <Action ask={() => askPauseAll(kinds)} onDone={loaded.reload}>
            Pause all
          </Action>
        )}
      </Head>
      <section class="card">
        <Shown loaded={loaded}>
          {(all) =>
            all.length === 0 ? (
              <Empty>No worker runs here, and no job was created yet.</Empty>
            ) : (
              <Table
                label="Types"
                head={[
                  "Type",
                  "State",
                  "#Ready",
                  "#Oldest",
                  "#Running",
                  "#Waiting",
                  "#Workers",
                  "Needs",
                  "Held back by",
                  ...(may ? [""] : []),
                ]}
              >
                {all.map((kind) => {
                  const total = (of: (queue: Kind["queues"][number]) => number) =>
                    kind.queues.reduce((sum, queue) => sum + of(queue), 0)
                  const oldest = Math.max(0, ...kind.queues.map((queue) => queue.oldest_ready_seconds))
                  const reasons = kind.queues.flatMap(({ held_back: held, mode }) =>
                    held.filter(({ reason }) => reason !== "kind_paused").map((why) => ({ mode, why })),
                  )
                  return (
                    <tr key={kind.type}>
                      <th scope="row">
                        <a href={linkTo(["jobs"], { type: kind.type })}>{kind.type}</a>
                      </th>
                      <td>
                        <Badge>{kind.paused ? "paused" : "active"}</Badge>
                      </td>
                      <td class="number">{count(total(({ ready }) => ready))}</td>
                      <td class="number">{oldest === 0 ? "–" : span(oldest)}</td>
                      <td class="number">
                        {count(total(({ running }) => running))}
                        {kind.limit === null ? "" : ` of ${kind.limit}`}
                      </td>
                      <td class="number">{count(total(({ delayed, retrying }) => delayed + retrying))}</td>
                      <td class="number">{kind.workers === 0 ? <span class="bad">0</span> : kind.workers}</td>
                      <td>{[...kind.switches.map((name) => `switch ${name}`), ...kind.providers].join(", ")}</td>
                      <td>
                        {reasons.map(({ mode, why }, index) => (
                          <span key={index} class="warn">
                            {index > 0 && "; "}
                            {mode}: <Reason why={why} />
                          </span>
                        ))}
                      </td>
                      {may && (
                        <td>
                          <Action ask={() => (kind.paused ? askResume(kind) : askPause(kind))} onDone={loaded.reload}>
                            {kind.paused ? "Resume" : "Pause"}
                          </Action>
                        </td>
                      )}
                    </tr>
                  )
                })}
              </Table>
            )
          }
        </Shown>
      </section>
    </>
  )
}
