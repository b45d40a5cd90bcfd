import { expect, it } from "vitest"
import { compareWithDocument } from "./compare.ts"

const count = 100_000
const seed = Number(process.env["KILN_FUZZ_SEED"] ?? 1)

it("100,000 generated requests are answered as the OpenAPI document says", async () => {
  const { accepted, differences, statuses } = await compareWithDocument(count, seed)
  const kinds = Object.keys(statuses).length
  process.stdout.write(`figure: ${count} requests, seed ${seed}: ${accepted} accepted, ${kinds} kinds of response\n`)
  expect(differences).toEqual([])
}, 1_800_000)
