import { Badge } from "@kiln/pages/ui"
import { useState } from "preact/hooks"
import type { ResultOf } from "../../src/api/operations.ts"
import { call } from "../api.ts"
import { Action, type Question } from "../components/Confirm.tsx"
import { Empty, Head, Shown, Table, Time } from "../components/parts.tsx"
import { useLoaded } from "../hooks.ts"
import { linkTo } from "../router.ts"
import { useMay } from "../session.ts"

type Project = ResultOf<"listProjects">[number]

const askDisable = ({ name, project_id: id }: Project): Question => ({
  title: `Disable ${name}: its keys are rejected within 5 seconds`,
  body: <p>Its schedules are paused. Jobs that were accepted go on.</p>,
  command: `kiln project disable ${name}`,
  verb: "Disable the project",
  isDangerous: true,
  run: async () => {
    await call("disableProject", "POST /projects/:id/disable", { id })
    return undefined
  },
})

const askEnable = ({ name, project_id: id }: Project): Question => ({
  title: `Enable ${name}: its keys work again`,
  body: <p>Its schedules stay paused until they are resumed.</p>,
  command: `kiln project enable ${name}`,
  verb: "Enable the project",
  run: async () => {
    await call("enableProject", "POST /projects/:id/enable", { id })
    return undefined
  },
})

/** Reads the fields of a form in a question. */
const Field = ({
  label,
  onInput,
  value,
  hint,
}: {
  readonly label: string
  readonly hint: string
  readonly value: string
  readonly onInput: (value: string) => void
}) => {
  const [text, setText] = useState(value)
  return (
    <label class="field">
      <span>{label}</span>
      <input
        value={text}
        placeholder={hint}
        autocomplete="off"
        onInput={(event) => {
          setText(event.currentTarget.value)
          onInput(event.currentTarget.value.trim())
        }}
      />
    </label>
  )
}

const askLimit = (project: Project): Question => {
  let wanted = project.concurrency === null ? "" : String(project.concurrency)
  return {
    title: `Limit the running jobs of ${project.name}`,
    body: (
      <>
        <Field
          label="Running jobs"
          hint="the settings' limit"
          value={wanted}
          onInput={(value) => void (wanted = value)}
        />
        <p class="faint">
          In all processes, for live and sandbox jobs separately. 0 means no limit; empty, that the limit of the
          settings applies.
        </p>
      </>
    ),
    command: `kiln project limit ${project.name} --concurrency N`,
    verb: "Set the limit",
    run: async () => {
      const concurrency = wanted === "" ? null : Number(wanted)
      if (concurrency !== null && !(Number.isSafeInteger(concurrency) && concurrency >= 0))
        throw new Error("The limit must be 0 or a positive integer.")
      await call("limitProject", "POST /projects/:id/limit", { id: project.project_id, payload: { concurrency } })
      return undefined
    },
  }
}

const askCap = (project: Project): Question => {
  const { spending } = project
  const wanted = {
    currency: spending?.currency ?? "usd",
    day: spending?.day_cap ?? "",
    month: spending?.month_cap ?? "",
  }
  return {
    title: `Cap the spending of ${project.name}`,
    body: (
      <>
        <Field
          label="Currency"
          hint="usd"
          value={wanted.currency}
          onInput={(value) => void (wanted.currency = value)}
        />
        <Field label="A day" hint="no cap" value={wanted.day} onInput={(value) => void (wanted.day = value)} />
        <Field label="A month" hint="no cap" value={wanted.month} onInput={(value) => void (wanted.month = value)} />
        <p class="faint">Live jobs that could pass the cap are refused. Calendar days and months of UTC.</p>
      </>
    ),
    command: `kiln project cap ${project.name} --day AMOUNT --month AMOUNT`,
    verb: "Set the cap",
    run: async () => {
      const payload = { currency: wanted.currency, day: wanted.day || null, month: wanted.month || null }
      await call("capProject", "POST /projects/:id/cap", { id: project.project_id, payload })
      return undefined
    },
  }
}

const amount = (spent: string, cap: string | null, currency: string): string =>
  `${spent} of ${cap ?? "no cap"} ${currency}`

export const ProjectsView = () => {
  const may = useMay("operate")
  const loaded = useLoaded("projects", (signal) => call("listProjects", "GET /projects", { signal }))
  return (
    <>
      <Head title="Projects" />
      <section class="card">
        <Shown loaded={loaded}>
          {(projects) =>
            projects.length === 0 ? (
              <Empty>
                No projects yet. <code>kiln project create NAME</code> makes one.
              </Empty>
            ) : (
              <Table
                label="Projects"
                head={[
                  "Project",
                  "State",
                  "#Running jobs",
                  "Today",
                  "This month",
                  "#Reserved",
                  "Created",
                  ...(may ? [""] : []),
                ]}
              >
                {projects.map((project) => (
                  <tr key={project.project_id}>
                    <th scope="row">
                      <a href={linkTo(["jobs"], { project: project.project_id })} title={project.project_id}>
                        {project.name}
                      </a>
                    </th>
                    <td>
                      <Badge tone={project.disabled_at === null ? "good" : "bad"}>
                        {project.disabled_at === null ? "enabled" : "disabled"}
                      </Badge>
                    </td>
                    <td class="number">
                      {project.concurrency === null
                        ? "by settings"
                        : project.concurrency === 0
                          ? "no limit"
                          : `at most ${project.concurrency}`}
                    </td>
                    <td>
                      {project.spending === null
                        ? "–"
                        : amount(project.spending.day_spent, project.spending.day_cap, project.spending.currency)}
                    </td>
                    <td>
                      {project.spending === null
                        ? "–"
                        : amount(project.spending.month_spent, project.spending.month_cap, project.spending.currency)}
                    </td>
                    <td class="number">{project.spending?.reserved ?? "–"}</td>
                    <td>
                      <Time at={project.created_at} />
                    </td>
                    {may && (
                      <td class="buttons">
                        <Action ask={() => askLimit(project)} onDone={loaded.reload}>
                          Limit
                        </Action>
                        <Action ask={() => askCap(project)} onDone={loaded.reload}>
                          Cap
                        </Action>
                        <Action
                          ask={() => (project.disabled_at === null ? askDisable(project) : askEnable(project))}
                          onDone={loaded.reload}
                        >
                          {project.disabled_at === null ? "Disable" : "Enable"}
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
