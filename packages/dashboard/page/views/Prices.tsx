import { Badge } from "@kiln/pages/ui"
import type { ResultOf } from "../../src/api/operations.ts"
import { call } from "../api.ts"
import { Action, type Question } from "../components/Confirm.tsx"
import { Empty, Head, Shown, Table, Time } from "../components/parts.tsx"
import { useLoaded } from "../hooks.ts"
import { useMay } from "../session.ts"

type Price = ResultOf<"listPrices">[number]

const askActivate = ({ name }: Price): Question => ({
  title: `Activate ${name}: new live jobs are charged by its newest version`,
  command: `kiln price activate ${name}`,
  verb: "Activate the price",
  run: async () => {
    await call("activatePrice", "POST /prices/:id/activate", { id: name })
    return undefined
  },
})

const askDeactivate = ({ name }: Price): Question => ({
  title: `Deactivate ${name}: new live jobs that need it are rejected`,
  body: <p>Accepted jobs keep their price.</p>,
  command: `kiln price deactivate ${name}`,
  verb: "Deactivate the price",
  isDangerous: true,
  run: async () => {
    await call("deactivatePrice", "POST /prices/:id/deactivate", { id: name })
    return undefined
  },
})

export const PricesView = () => {
  const may = useMay("operate")
  const loaded = useLoaded("prices", (signal) => call("listPrices", "GET /prices", { signal }))
  const newest = (prices: ReadonlyArray<Price>, { name, version }: Price) =>
    prices.every((other) => other.name !== name || other.version <= version)
  return (
    <>
      <Head title="Prices" note="kiln price set adds a version." />
      <section class="card">
        <Shown loaded={loaded}>
          {(prices) =>
            prices.length === 0 ? (
              <Empty>
                No prices yet. <code>kiln price set</code> makes one.
              </Empty>
            ) : (
              <Table
                label="Prices"
                head={["Price", "#Version", "State", "Unit amounts", "Since", ...(may ? [""] : [])]}
              >
                {prices.map((price) => (
                  <tr key={`${price.name} ${price.version}`}>
                    <th scope="row">{price.name}</th>
                    <td class="number">{price.version}</td>
                    <td>
                      <Badge tone={price.active ? "good" : "quiet"}>{price.active ? "active" : "inactive"}</Badge>
                    </td>
                    <td>
                      {Object.entries(price.unit_amounts)
                        .map(([meter, amount]) => `${meter.replaceAll("_", " ")} ${amount}`)
                        .join(", ")}{" "}
                      {price.currency}
                    </td>
                    <td>
                      <Time at={price.created_at} />
                    </td>
                    {may && (
                      <td>
                        {newest(prices, price) && (
                          <Action
                            ask={() => (price.active ? askDeactivate(price) : askActivate(price))}
                            onDone={loaded.reload}
                          >
                            {price.active ? "Deactivate" : "Activate"}
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
