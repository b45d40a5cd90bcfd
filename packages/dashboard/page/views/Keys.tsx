import { Badge } from "@kiln/pages/ui"
import type { ResultOf } from "../../src/api/operations.ts"
import { call } from "../api.ts"
import { Action, type Question } from "../components/Confirm.tsx"
import { Empty, Head, Shown, Table, Time } from "../components/parts.tsx"
import { shortId } from "../format.ts"
import { useLoaded } from "../hooks.ts"
import { linkTo } from "../router.ts"
import { useMay } from "../session.ts"

type Key = ResultOf<"listKeys">[number]

const askRevoke = (key: Key): Question => ({
  title: `Revoke ${key.name ?? key.key_id} permanently`,
  body: (
    <p>
      Its requests are rejected within 5 seconds. Jobs that it created go on, but nobody can poll them with this key.
    </p>
  ),
  command: `kiln key revoke ${key.key_id}`,
  verb: "Revoke the key",
  isDangerous: true,
  run: async () => {
    await call("revokeKey", "POST /keys/:id/revoke", { id: key.key_id })
    return undefined
  },
})

export const KeysView = () => {
  const may = useMay("operate")
  const loaded = useLoaded("keys", (signal) => call("listKeys", "GET /keys", { signal }))
  return (
    <>
      <Head title="Keys" note="Secrets are not stored. kiln key create and kiln key rotate show one once." />
      <section class="card">
        <Shown loaded={loaded}>
          {(keys) =>
            keys.length === 0 ? (
              <Empty>
                No keys yet. <code>kiln key create</code> makes one.
              </Empty>
            ) : (
              <Table
                label="Keys"
                head={[
                  "Key",
                  "Name",
                  "Project",
                  "Mode",
                  "State",
                  "Scopes",
                  "Created",
                  "Expires",
                  "Last used",
                  ...(may ? [""] : []),
                ]}
              >
                {keys.map((key) => (
                  <tr key={key.key_id}>
                    <th scope="row">
                      <a class="id" href={linkTo(["jobs"], { key: key.key_id })} title={key.key_id}>
                        {shortId(key.key_id)}
                      </a>
                    </th>
                    <td>{key.name ?? <span class="faint">–</span>}</td>
                    <td>{key.project_name ?? key.project_id}</td>
                    <td>{key.mode}</td>
                    <td>
                      <Badge>{key.status}</Badge>
                    </td>
                    <td>{key.scopes.join(", ")}</td>
                    <td>
                      <Time at={key.created_at} />
                    </td>
                    <td>
                      <Time at={key.expires_at} />
                    </td>
                    <td>
                      <Time at={key.last_used_at} />
                    </td>
                    {may && (
                      <td>
                        {key.status === "active" && (
                          <Action ask={() => askRevoke(key)} onDone={loaded.reload}>
                            Revoke
                          </Action>
                        )}
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
