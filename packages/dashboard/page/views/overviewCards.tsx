import type { ResultOf } from "../../src/api/operations.ts"
import { Empty, Meter, Table, Time } from "../components/parts.tsx"
import { Badge, count, counted, percent, span } from "@kiln/pages/ui"
import { linkTo } from "../router.ts"

type Overview = ResultOf<"overview">

const sum = (numbers: ReadonlyArray<number>): number => numbers.reduce((all, each) => all + each, 0)

export const Fairness = ({ recent }: { readonly recent: Overview["recent"] }) =>
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

export const FailuresByCode = ({ recent }: { readonly recent: Overview["recent"] }) =>
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

export const Providers = ({ providers }: { readonly providers: Overview["providers"] }) =>
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

export const Spending = ({ spending }: { readonly spending: Overview["spending"] }) =>
  spending.length === 0 ? (
    <Empty>
      No spend caps. <a href={linkTo(["projects"])}>Projects</a> can have one.
    </Empty>
  ) : (
    <Table label="Spending" head={["Owner", "Cap", "#Spent", "#Reserved"]}>
      {spending.map((each) => {
        const cap = each.day_cap ?? each.month_cap
        const spent = each.day_cap === null ? each.month_spent : each.day_spent
        // Unfinished jobs count with what they may cost at most.
        const taken = Number(spent) + Number(each.reserved)
        const share = cap === null || Number(cap) === 0 ? 0 : taken / Number(cap)
        const isFull = share >= 0.9
        return (
          <tr key={each.owner}>
            <th scope="row">
              <a href={linkTo([each.owner.startsWith("key_") ? "keys" : "projects"])}>{each.name ?? each.owner}</a>
            </th>
            <td>
              <Meter share={share} label={percent(share)} />
            </td>
            <td class={isFull ? "number bad" : "number"}>
              {spent} of {cap} {each.currency}
              {each.day_cap === null ? " this month" : ""}
            </td>
            <td class="number">{each.reserved}</td>
          </tr>
        )
      })}
    </Table>
  )

export const Others = ({ overview: { deliveries, schedules, switches, workers } }: { readonly overview: Overview }) => {
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
        {pending === 0 ? "all confirmed" : counted(pending, "pending delivery").replace(/ys$/, "ies")}
        {repeated > 0 && <span class="bad">, {count(repeated)} failing</span>}
      </dd>
    </dl>
  )
}
