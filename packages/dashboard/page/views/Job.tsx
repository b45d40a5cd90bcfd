import { useState } from "preact/hooks"
import type { ResultOf } from "../../src/api/operations.ts"
import { call, type RequestFailed } from "../api.ts"
import { Action, type Question } from "../components/Confirm.tsx"
import { Card, Empty, Failure, Head, Shown, Table, Time } from "../components/parts.tsx"
import { Reason } from "../components/Reason.tsx"
import { Timeline } from "../components/Timeline.tsx"
import { Badge, count, counted, percent, size, span } from "@kiln/pages/ui"
import { secondsBetween } from "../format.ts"
import { useLoaded } from "../hooks.ts"
import { linkTo } from "../router.ts"
import { useMay } from "../session.ts"

type Job = ResultOf<"readJob">

const askCancel = (job: Job): Question => ({
  title: "Cancel this job?",
  body: (
    <p>
      It fails with canceled_by_operator and is not charged. A worker that runs it stops within seconds.
      {job.children.length > 0 ? " Its children are canceled, too." : ""}
    </p>
  ),
  command: `kiln job cancel ${job.job_id}`,
  verb: "Cancel the job",
  isDangerous: true,
  run: async () => {
    await call("cancelJob", "POST /jobs/:id/cancel", { id: job.job_id })
    return undefined
  },
})

const askPromote = (job: Job): Question => ({
  title: "Start this job now?",
  body: <p>It no longer waits for its time, and comes after the jobs that are ready already.</p>,
  command: `kiln job promote ${job.job_id}`,
  verb: "Promote the job",
  run: async () => {
    await call("promoteJob", "POST /jobs/:id/promote", { id: job.job_id })
    return undefined
  },
})

const anHourMs = 3_600_000

const askReschedule = (job: Job): Question => ({
  title: "Start this job at another time?",
  body: <p>The time until then does not count against its queue limit.</p>,
  moment: { label: "New start", value: new Date(Math.ceil(Date.now() / 60_000) * 60_000 + anHourMs).toISOString() },
  command: (at) => `kiln job reschedule ${job.job_id} --at ${at === "" ? "TIME" : at}`,
  verb: "Reschedule the job",
  run: async (_, at) => {
    await call("rescheduleJob", "POST /jobs/:id/reschedule", { id: job.job_id, payload: { run_at: at } })
    return undefined
  },
})

const priorities = ["urgent", "high", "normal", "low"]

const askPriority = (job: Job): Question => ({
  title: "Change the priority of this job?",
  body: <p>Workers go by it at once, among the jobs of its project, type and mode. Its start stays.</p>,
  choice: {
    label: "New priority",
    value: job.priority === "high" ? "urgent" : "high",
    options: priorities.filter((priority) => priority !== job.priority),
  },
  command: (priority) => `kiln job reschedule ${job.job_id} --priority ${priority}`,
  verb: "Change the priority",
  run: async (_, priority) => {
    await call("rescheduleJob", "POST /jobs/:id/reschedule", { id: job.job_id, payload: { priority } })
    return undefined
  },
})

/** Seconds that a job waited and ran, with its present phase. A wait for its time is not one for the service. */
const timesOf = (job: Job): { readonly waited: number; readonly ran: number } => {
  const isOpen = job.finished_at === null && job.phase_started_at !== null
  const phase = isOpen ? Math.max(0, secondsBetween(job.phase_started_at ?? job.created_at, Date.now())) : 0
  const runs = job.status === "processing" && job.held
  return { waited: job.waited_seconds + (runs ? 0 : phase), ran: job.ran_seconds + (runs ? phase : 0) }
}

/** Whether an unfinished job waits for a time that an operator can pass over. */
const waitsForTime = (job: Job): boolean =>
  job.waiting_for.some(({ reason }) => reason === "start_delayed" || reason === "retry")

const askRetry = (job: Job): Question => ({
  title: "Retry this job?",
  body: <p>A new job gets the same request, at the current price. Repeating this returns the same new job.</p>,
  command: `kiln job retry ${job.job_id}`,
  verb: "Retry the job",
  run: async () => {
    const { job_id: id } = await call("retryJob", "POST /jobs/:id/retry", { id: job.job_id })
    location.hash = linkTo(["jobs", id])
    return undefined
  },
})

const Facts = ({ job }: { readonly job: Job }) => (
  <dl class="facts">
    <dt>Id</dt>
    <dd class="id">{job.job_id}</dd>
    <dt>Project</dt>
    <dd>
      <a href={linkTo(["jobs"], { project: job.project_id })}>{job.project_name ?? job.project_id}</a>
    </dd>
    <dt>Key</dt>
    <dd>
      <a class="id" href={linkTo(["jobs"], { key: job.key_id })}>
        {job.key_id}
      </a>
    </dd>
    <dt>Created</dt>
    <dd>
      <Time at={job.created_at} />
    </dd>
    <dt>Waited, ran</dt>
    <dd>
      {span(timesOf(job).waited)}, {span(timesOf(job).ran)}
    </dd>
    <dt>Attempts</dt>
    <dd>
      {job.attempts}
      {job.failures > 0 && `, ${counted(job.failures, "failure")}`}
      {job.lost_workers > 0 && `, ${counted(job.lost_workers, "lost worker")}`}
    </dd>
    <dt>Priority</dt>
    <dd>{String(job.priority)}</dd>
    {job.deadline_at !== null && (
      <>
        <dt>Fails</dt>
        <dd>
          <Time at={job.deadline_at} /> unless it goes on
        </dd>
      </>
    )}
    {job.progress !== null && (
      <>
        <dt>Progress</dt>
        <dd>{percent(job.progress)}</dd>
      </>
    )}
    {job.steps.length > 0 && (
      <>
        <dt>Finished steps</dt>
        <dd>{job.steps.join(", ")}</dd>
        <dt>Provider calls</dt>
        <dd class="faint">
          Not kept one by one: a job keeps which steps have finished, not when. Durations and outcomes of calls are in
          traces and metrics.
        </dd>
      </>
    )}
    {job.tags.length > 0 && (
      <>
        <dt>Tags</dt>
        <dd>
          {job.tags.map((tag) => (
            <a key={tag} class="tag" href={linkTo(["jobs"], { tag })}>
              {tag}
            </a>
          ))}
        </dd>
      </>
    )}
    <dt>Charge</dt>
    <dd>
      {job.charge === null ? "none" : `${job.charge.amount} ${job.charge.currency}`}
      {job.charge?.line_items.map(({ amount, meter, quantity, unit_amount: unit }) => (
        <div key={meter} class="faint">
          {meter}: {count(quantity)} at {unit}, {amount}
        </div>
      ))}
    </dd>
    <dt>Data</dt>
    <dd>{job.data}</dd>
  </dl>
)

const Content = ({ job }: { readonly job: Job }) => {
  const may = useMay("content")
  const [content, setContent] = useState<ResultOf<"readContent">>()
  const [failure, setFailure] = useState<RequestFailed>()
  const show = async (): Promise<void> => {
    setFailure(undefined)
    try {
      setContent(await call("readContent", "GET /jobs/:id/content", { id: job.job_id }))
    } catch (error) {
      setFailure(error as RequestFailed)
    }
  }
  if (!may)
    return (
      <Empty>Request, result and error messages belong to the caller. A token with the role content shows them.</Empty>
    )
  if (content === undefined)
    return (
      <>
        {failure !== undefined && <Failure error={failure} />}
        <p class="note">
          Request, result and error messages belong to the caller. A look at them is recorded in the audit log.
        </p>
        <button type="button" onClick={() => void show()}>
          Show content
        </button>
      </>
    )
  return (
    <>
      <h3>Request</h3>
      <pre tabIndex={0}>{content.request === null ? "gone" : JSON.stringify(content.request, null, 2)}</pre>
      <h3>Result</h3>
      <pre tabIndex={0}>{content.output === null ? "none" : JSON.stringify(content.output, null, 2)}</pre>
      {content.attempts.map(({ attempt, message, stack }) => (
        <section key={attempt}>
          <h3>Attempt {attempt} failed</h3>
          <pre tabIndex={0}>
            {stack === null || !stack.includes(message) ? [message, stack].filter(Boolean).join("\n") : stack}
          </pre>
        </section>
      ))}
    </>
  )
}

const Family = ({ job }: { readonly job: Job }) => {
  const row = (related: Job["children"][number], name: string) => (
    <li key={related.job_id}>
      <span class="faint">{name}</span>{" "}
      <a class="id" href={linkTo(["jobs", related.job_id])}>
        {related.job_id}
      </a>{" "}
      {related.type} <Badge>{related.status}</Badge> {related.error_code}
    </li>
  )
  return (
    <ul class="tree">
      {job.parent !== null && row(job.parent, "parent")}
      {job.children.map((child) => row(child, child.step ?? "child"))}
      {!job.children_complete && <li class="faint">and more: kiln job list shows all</li>}
    </ul>
  )
}

const Details = ({ job, reload }: { readonly job: Job; readonly reload: () => void }) => {
  const may = useMay("operate")
  const isFinished = job.finished_at !== null
  return (
    <>
      <Head
        title={
          <>
            {job.type} <Badge>{job.status}</Badge>
          </>
        }
        note={
          <>
            {job.mode}
            {job.error_code !== null && (
              <>
                {" · "}
                <a
                  class="bad"
                  href={linkTo(["jobs"], { type: job.type, error_code: job.error_code, status: "failed" })}
                >
                  {job.error_code}
                </a>
              </>
            )}
            {job.warning_code !== null && ` · ${job.warning_code}`}
          </>
        }
      >
        {may && !isFinished && (
          <Action ask={() => askCancel(job)} onDone={reload}>
            Cancel
          </Action>
        )}
        {may && waitsForTime(job) && (
          <Action ask={() => askPromote(job)} onDone={reload}>
            Promote
          </Action>
        )}
        {may && waitsForTime(job) && (
          <Action ask={() => askReschedule(job)} onDone={reload}>
            Reschedule
          </Action>
        )}
        {may && !isFinished && !job.held && (
          <Action ask={() => askPriority(job)} onDone={reload}>
            Priority
          </Action>
        )}
        {may && job.status === "failed" && (
          <Action ask={() => askRetry(job)} onDone={reload}>
            Retry
          </Action>
        )}
      </Head>
      {job.waiting_for.length > 0 && (
        <section class="waiting">
          <strong>Waits for</strong>
          <ul>
            {job.waiting_for.map((why, index) => (
              <li key={index}>
                <Reason why={why} />
              </li>
            ))}
          </ul>
        </section>
      )}
      <Card title="Timeline">
        <Timeline job={job} />
      </Card>
      <div class="pair">
        <Card title="Facts">
          <Facts job={job} />
        </Card>
        <div class="stack">
          {job.failed_attempts.length > 0 && (
            <Card title="Failed attempts">
              <Table label="Failed attempts" head={["#Attempt", "Error", "Started", "#Took", "Worker"]}>
                {job.failed_attempts.map((attempt) => (
                  <tr key={attempt.attempt}>
                    <td class="number">{attempt.attempt}</td>
                    <th scope="row">{attempt.error_code}</th>
                    <td>
                      <Time at={attempt.started_at} />
                    </td>
                    <td class="number">{span(attempt.duration_seconds)}</td>
                    <td class="id">{attempt.worker}</td>
                  </tr>
                ))}
              </Table>
            </Card>
          )}
          <Card title="Files">
            {job.files.length === 0 ? (
              <Empty>None.</Empty>
            ) : (
              <Table label="Files" head={["Name", "Type", "#Size"]}>
                {job.files.map((file) => (
                  <tr key={file.name}>
                    <th scope="row">{file.name}</th>
                    <td>{file.media_type}</td>
                    <td class="number">{size(file.bytes)}</td>
                  </tr>
                ))}
              </Table>
            )}
          </Card>
          {(job.parent !== null || job.children.length > 0) && (
            <Card title="Parent and children">
              <Family job={job} />
            </Card>
          )}
          <Card title="Content">
            <Content key={job.job_id} job={job} />
          </Card>
        </div>
      </div>
    </>
  )
}

export const JobView = ({ id }: { readonly id: string }) => {
  const loaded = useLoaded(`job ${id}`, (signal) => call("readJob", "GET /jobs/:id", { id, signal }), 2_000)
  return (
    <>
      {loaded.value === undefined && <Head title="Job" note={<span class="id">{id}</span>} />}
      <Shown loaded={loaded}>{(job) => <Details job={job} reload={loaded.reload} />}</Shown>
      {loaded.error?.code === "not_found" && (
        <p>
          Records of jobs are erased some time after their end. <a href={linkTo(["jobs"])}>All jobs</a>
        </p>
      )}
    </>
  )
}
