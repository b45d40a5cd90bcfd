import { Badge } from "@kiln/pages/ui"
import type { ResultOf } from "../../src/api/operations.ts"
import { call } from "../api.ts"
import { Action, type Question } from "../components/Confirm.tsx"
import { Empty, Head, Shown, Table, Time } from "../components/parts.tsx"
import { shortId } from "../format.ts"
import { useLoaded } from "../hooks.ts"
import { linkTo } from "../router.ts"
import { useMay } from "../session.ts"

type Schedule = ResultOf<"listSchedules">[number]

const askPause = ({ name }: Schedule): Question => ({
  title: `Pause ${name}: it submits no jobs until it is resumed`,
  body: <p>Ticks during the pause get no job. Accepted jobs go on.</p>,
  command: `kiln schedule pause ${name}`,
  verb: "Pause the schedule",
  isDangerous: true,
  run: async () => {
    await call("pauseSchedule", "POST /schedules/:id/pause", { id: name })
    return undefined
  },
})

const askResume = ({ name }: Schedule): Question => ({
  title: `Resume ${name} with its next tick`,
  command: `kiln schedule resume ${name}`,
  verb: "Resume the schedule",
  run: async () => {
    await call("resumeSchedule", "POST /schedules/:id/resume", { id: name })
    return undefined
  },
})

const askRemove = ({ name }: Schedule): Question => ({
  title: `Remove ${name}`,
  body: <p>Its jobs stay. A program that sets it when it starts sets it again.</p>,
  command: `kiln schedule remove ${name}`,
  verb: "Remove the schedule",
  isDangerous: true,
  run: async () => {
    await call("removeSchedule", "POST /schedules/:id/remove", { id: name })
    return undefined
  },
})

const stateOf = ({ next_at, paused, refusal }: Schedule): string => {
  if (paused) return "paused"
  if (refusal !== null) return "refused"
  return next_at !== null && new Date(next_at).getTime() <= Date.now() ? "due" : "active"
}

export const SchedulesView = () => {
  const may = useMay("operate")
  const loaded = useLoaded("schedules", (signal) => call("listSchedules", "GET /schedules", { signal }))
  return (
    <>
      <Head title="Schedules" />
      <section class="card">
        <Shown loaded={loaded}>
          {(schedules) =>
            schedules.length === 0 ? (
              <Empty>
                No schedules. Programs set them with <code>engine.schedules.set()</code>.
              </Empty>
            ) : (
              <Table
                label="Schedules"
                head={["Schedule", "Type", "Mode", "When", "State", "Next", "Last", "Last job", ...(may ? [""] : [])]}
              >
                {schedules.map((schedule) => (
                  <tr key={schedule.name}>
                    <th scope="row">{schedule.name}</th>
                    <td>{schedule.type}</td>
                    <td>{schedule.mode}</td>
                    <td class="id">{schedule.timing}</td>
                    <td>
                      <Badge
                        tone={
                          stateOf(schedule) === "refused" ? "bad" : stateOf(schedule) === "active" ? "good" : "warn"
                        }
                      >
                        {stateOf(schedule)}
                      </Badge>{" "}
                      {schedule.refusal !== null && <span class="bad">{schedule.refusal}</span>}
                    </td>
                    <td>
                      <Time at={schedule.next_at} />
                    </td>
                    <td>
                      <Time at={schedule.last_at} />
                    </td>
                    <td>
                      {schedule.last_job_id !== null && (
                        <a class="id" href={linkTo(["jobs", schedule.last_job_id])}>
                          {shortId(schedule.last_job_id)}
                        </a>
                      )}
                    </td>
                    {may && (
                      <td class="buttons">
                        <Action
                          ask={() => (schedule.paused ? askResume(schedule) : askPause(schedule))}
                          onDone={loaded.reload}
                        >
                          {schedule.paused ? "Resume" : "Pause"}
                        </Action>
                        <Action ask={() => askRemove(schedule)} onDone={loaded.reload}>
                          Remove
                        </Action>
                      </td>
                    )}
                  </tr>
                ))}
              </Table>
            )
          }
        </Shown>
      </section>
    </>
  )
}
