import { useState } from "preact/hooks"
import type { ResultOf } from "../../src/api/operations.ts"
import { call } from "../api.ts"
import { Empty, Head, Shown, Table, Time } from "../components/parts.tsx"
import { useLoaded } from "../hooks.ts"

export const AuditView = () => {
  const [older, setOlder] = useState<ResultOf<"listAudit">>()
  const loaded = useLoaded(
    "audit",
    (signal) => call("listAudit", "GET /audit", { signal }),
    older === undefined ? 10_000 : undefined,
  )
  const load = async (after: number): Promise<void> => {
    const page = await call("listAudit", "GET /audit", { query: { after: String(after) } })
    setOlder({ changes: [...(older?.changes ?? []), ...page.changes], next: page.next })
  }
  return (
    <>
      <Head title="Audit" note="Administrative changes, and looks at callers' data, newest first." />
      <section class="card">
        <Shown loaded={loaded}>
          {(newest) => {
            const changes = [...newest.changes, ...(older?.changes ?? [])]
            const next = older === undefined ? newest.next : older.next
            if (changes.length === 0) return <Empty>Nothing was changed yet.</Empty>
            return (
              <>
                <Table label="Changes" head={["When", "Who", "From", "Action", "Subject", "Details"]}>
                  {changes.map((change) => (
                    <tr key={change.number}>
                      <td>
                        <Time at={change.at} />
                      </td>
                      <td>{change.actor}</td>
                      <td>{change.origin}</td>
                      <th scope="row">{change.action}</th>
                      <td class="id">{change.subject}</td>
                      <td class="id">
                        {JSON.stringify(change.details) === "{}" ? "" : JSON.stringify(change.details)}
                      </td>
                    </tr>
                  ))}
                </Table>
                {next !== null && (
                  <div class="more">
                    <button type="button" onClick={() => void load(next)}>
                      Show more
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
