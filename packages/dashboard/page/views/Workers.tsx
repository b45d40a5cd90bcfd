import { Badge } from "@kiln/pages/ui"
import type { ResultOf } from "../../src/api/operations.ts"
import { Card, Empty, Head, Table, Time } from "../components/parts.tsx"
import { shortId } from "../format.ts"

export const WorkersView = ({ overview }: { readonly overview: ResultOf<"overview"> }) => (
  <>
    <Head
      title="Workers"
      note="Workers publish their state every ten seconds; one that stops is forgotten within half a minute."
    />
    <section class="card">
      {overview.workers.length === 0 ? (
        <Empty>No worker is running, so no job starts.</Empty>
      ) : (
        <Table
          label="Workers"
          head={[
            "Worker",
            "Version",
            "State",
            "Last claim",
            "#Free live",
            "#Free sandbox",
            "#Slots a mode",
            "#Loop lag p99",
            "Types",
            "Live types",
            "Paused providers",
            "Forced off",
          ]}
        >
          {overview.workers.map((worker) => (
            <tr key={worker.worker_id}>
              <th scope="row" class="id" title={worker.worker_id}>
                {worker.name ?? shortId(worker.worker_id)}
              </th>
              <td>{worker.version ?? "–"}</td>
              <td>{worker.draining ? <Badge>draining</Badge> : <Badge>running</Badge>}</td>
              <td>
                <Time at={worker.last_claim_at} />
              </td>
              <td class="number">{worker.free?.live ?? "–"}</td>
              <td class="number">{worker.free?.sandbox ?? "–"}</td>
              <td class="number">{worker.slots ?? "–"}</td>
              <td class="number">{worker.loop_lag_ms === null ? "–" : `${worker.loop_lag_ms} ms`}</td>
              <td>{worker.types.join(", ")}</td>
              <td>{worker.live_types.length === 0 ? <span class="faint">none</span> : worker.live_types.join(", ")}</td>
              <td>
                {worker.paused_providers.length > 0 && <span class="warn">{worker.paused_providers.join(", ")}</span>}
              </td>
              <td>{worker.forced_off.join(", ")}</td>
            </tr>
          ))}
        </Table>
      )}
    </section>
    <Card title="Providers">
      {overview.providers.length === 0 ? (
        <Empty>No worker has live providers.</Empty>
      ) : (
        <Table label="Providers" head={["Provider", "State", "Reason", "Since", "Next try", "#Workers", "#Paused in"]}>
          {overview.providers.map((provider) => (
            <tr key={provider.provider}>
              <th scope="row">{provider.provider}</th>
              <td>
                <Badge>{provider.status}</Badge>
              </td>
              <td>{provider.reason}</td>
              <td>
                <Time at={provider.paused_since} />
              </td>
              <td>
                <Time at={provider.next_try_at} />
              </td>
              <td class="number">{provider.workers}</td>
              <td class="number">{provider.paused_workers}</td>
            </tr>
          ))}
        </Table>
      )}
    </Card>
  </>
)
