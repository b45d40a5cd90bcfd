import { useState } from "preact/hooks"
import type { ResultOf } from "../../src/api/operations.ts"
import { call } from "../api.ts"
import { Action } from "../components/Confirm.tsx"
import { Empty, Head, Shown, Table, Time } from "../components/parts.tsx"
import { count } from "@kiln/pages/ui"
import { moment } from "../format.ts"
import { useLoaded } from "../hooks.ts"
import { linkTo } from "../router.ts"
import { useMay } from "../session.ts"
import { askRetryAll } from "./Jobs.tsx"

type Failures = ResultOf<"failures">

const Groups = ({ failures, reload }: { readonly failures: Failures; readonly reload: () => void }) => {
  const may = useMay("operate")
  const hasMessages = failures.groups.some(({ message }) => message !== null)
  if (failures.groups.length === 0) return <Empty>No job has failed since {moment(failures.since)}.</Empty>
  return (
    <Table
      label="Failures"
      head={[
        "Error",
        "Type",
        ...(hasMessages ? ["Message"] : []),
        "#Jobs",
        "First",
        "Last",
        "Example",
        ...(may ? [""] : []),
      ]}
    >
      {failures.groups.map((group) => (
        <tr key={`${group.type} ${group.error_code} ${group.message ?? ""}`}>
          <th scope="row">
            <a
              href={linkTo(["jobs"], {
                type: group.type,
                error_code: group.error_code,
                status: "failed",
                from: group.created_from,
              })}
            >
              {group.error_code}
            </a>
          </th>
          <td>{group.type}</td>
          {hasMessages && <td class="message">{group.message}</td>}
          <td class="number">{count(group.count)}</td>
          <td>
            <Time at={group.first_at} />
          </td>
          <td>
            <Time at={group.last_at} />
          </td>
          <td>
            <a href={linkTo(["jobs", group.example_job_id])}>one</a>
          </td>
          {may && (
            <td>
              {group.message === null && (
                <Action
                  ask={() => askRetryAll({ type: group.type, error_code: group.error_code, from: group.created_from })}
                  onDone={reload}
                >
                  {`Retry all ${count(group.count)}`}
                </Action>
              )}
            </td>
          )}
        </tr>
      ))}
    </Table>
  )
}

export const FailuresView = () => {
  const [span, setSpan] = useState<"1h" | "24h">("1h")
  const [withMessages, setMessages] = useState(false)
  const mayRead = useMay("content")
  const loaded = useLoaded(
    `failures ${span} ${withMessages}`,
    (signal) =>
      withMessages
        ? call("failureMessages", "GET /failures/messages", { query: { span }, signal })
        : call("failures", "GET /failures", { query: { span }, signal }),
    // Each look at messages is recorded.
    withMessages ? undefined : 10_000,
  )
  return (
    <>
      <Head title="Failures" note="Failed jobs by type and error">
        {mayRead && (
          <button type="button" class="small" aria-pressed={withMessages} onClick={() => setMessages(!withMessages)}>
            {withMessages ? "Hide messages" : "Show messages"}
          </button>
        )}
        <div class="toggle" role="group" aria-label="Period">
          {(["1h", "24h"] as const).map((each) => (
            <button key={each} type="button" aria-pressed={span === each} onClick={() => setSpan(each)}>
              {each}
            </button>
          ))}
        </div>
      </Head>
      <section class="card">
        <Shown loaded={loaded}>
          {(failures) => (
            <>
              <Groups failures={failures} reload={loaded.reload} />
              {!failures.complete && <p class="note">There are more failures: the newest were counted.</p>}
            </>
          )}
        </Shown>
      </section>
    </>
  )
}
