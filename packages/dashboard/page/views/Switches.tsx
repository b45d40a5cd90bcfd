import type { ResultOf } from "../../src/api/operations.ts"
import { call } from "../api.ts"
import { Action, type Question } from "../components/Confirm.tsx"
import { Head, Shown, Table } from "../components/parts.tsx"
import { Badge, counted } from "@kiln/pages/ui"
import { useLoaded } from "../hooks.ts"
import { useMay } from "../session.ts"

type Switch = ResultOf<"listSwitches">[number]

const askTurn = async ({ name, on }: Switch): Promise<Question> => {
  const { is_partial: isPartial, waiting } = await call("switchImpact", "GET /switches/:id/impact", { id: name })
  const jobs = `${isPartial ? "at least " : ""}${counted(waiting, "waiting job")}`
  return on
    ? {
        title: `Turn off ${name}: ${jobs} will not start`,
        body: <p>Live jobs that need it stop before their next step within a second, and wait until it is on again.</p>,
        command: `kiln switch off ${name}`,
        verb: `Turn off ${name}`,
        isDangerous: true,
        run: async () => {
          await call("turnOff", "POST /switches/:id/off", { id: name })
          return undefined
        },
      }
    : {
        title: `Turn on ${name}: ${jobs} may start`,
        body: <p>Live jobs call their providers and are charged.</p>,
        command: `kiln switch on ${name}`,
        verb: `Turn on ${name}`,
        run: async () => {
          await call("turnOn", "POST /switches/:id/on", { id: name })
          return undefined
        },
      }
}

export const SwitchesView = () => {
  const may = useMay("operate")
  const loaded = useLoaded("switches", (signal) => call("listSwitches", "GET /switches", { signal }))
  return (
    <>
      <Head title="Switches" note="Live jobs run while all switches that they need are on. Sandbox jobs need none." />
      <section class="card">
        <Shown loaded={loaded}>
          {(switches) => (
            <Table label="Switches" head={["Switch", "State", "Settings", ...(may ? [""] : [])]}>
              {switches.map((each) => (
                <tr key={each.name}>
                  <th scope="row">{each.name}</th>
                  <td>
                    <Badge>{each.on ? "on" : "off"}</Badge>
                  </td>
                  <td>{each.forced_off && <span class="warn">forced off by the settings of a worker</span>}</td>
                  {may && (
                    <td>
                      <Action ask={() => askTurn(each)} onDone={loaded.reload}>
                        {each.on ? "Turn off" : "Turn on"}
                      </Action>
                    </td>
                  )}
                </tr>
              ))}
            </Table>
          )}
        </Shown>
      </section>
    </>
  )
}
