import { call } from "../api.ts"
import { Empty, Head, Shown, Table, Time } from "../components/parts.tsx"
import { count, span } from "@kiln/pages/ui"
import { shortId } from "../format.ts"
import { useLoaded } from "../hooks.ts"
import { linkTo } from "../router.ts"

export const DeliveriesView = () => {
  const loaded = useLoaded("deliveries", (signal) => call("listDeliveries", "GET /deliveries", { signal }))
  return (
    <>
      <Head
        title="Deliveries"
        note="Finished jobs whose delivery to onFinished, a webhook for example, is not confirmed yet."
      />
      <Shown loaded={loaded}>
        {({ deliveries, pending }) =>
          pending.length === 0 ? (
            <section class="card">
              <Empty>All deliveries are confirmed.</Empty>
            </section>
          ) : (
            <>
              <section class="card">
                <Table label="Pending deliveries by type" head={["Type", "#Pending", "#Repeated", "#Oldest due"]}>
                  {pending.map((each) => (
                    <tr key={each.type}>
                      <th scope="row">{each.type}</th>
                      <td class="number">{count(each.count)}</td>
                      <td class="number">
                        {each.repeated > 0 ? <span class="bad">{count(each.repeated)}</span> : "0"}
                      </td>
                      <td class="number">{span(each.oldest_due_seconds)}</td>
                    </tr>
                  ))}
                </Table>
              </section>
              <section class="card">
                <Table label="Pending deliveries" head={["Job", "Type", "#Calls", "Due"]}>
                  {deliveries.map((each) => (
                    <tr key={each.job_id}>
                      <th scope="row">
                        <a class="id" href={linkTo(["jobs", each.job_id])} title={each.job_id}>
                          {shortId(each.job_id)}
                        </a>
                      </th>
                      <td>{each.type}</td>
                      <td class="number">{each.calls}</td>
                      <td>
                        <Time at={each.due_at} />
                      </td>
                    </tr>
                  ))}
                </Table>
              </section>
            </>
          )
        }
      </Shown>
    </>
  )
}
