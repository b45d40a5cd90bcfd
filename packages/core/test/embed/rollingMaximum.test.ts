import { createEngine, jobKind } from "@kiln/core"
import { memoryBlobs, memoryStore } from "@kiln/testing"
import { expect, it } from "vitest"
import { z } from "zod"

const paid = (most: number | undefined) =>
  jobKind({
    name: "paid",
    request: z.object({}),
    price: "paid",
    meters: ["units"],
    ...(most !== undefined && { maxUsage: () => ({ units: most }) }),
    run: async () => ({ output: {}, usage: { units: 100 } }),
  })

it.each([100, undefined])(
  "a deployment that changes maxUsage to %s completes jobs of the version before within their reservations",
  async (most) => {
    const store = memoryStore()
    const parts = { store, blobs: memoryBlobs(), log: false } as const
    await using before = await createEngine({ ...parts, kinds: [paid(1)], worker: false })
    await before.operator.setPrice({ name: "paid", currency: "usd", unitAmounts: { units: "1" } })
    await before.operator.setSpendCap({ project: "acme" }, { currency: "usd", day: "1.00" })
    const accepted = await before.submit("paid", {}, { project: "acme", mode: "live" })
    await using after = await createEngine({ ...parts, kinds: [paid(most)] })
    const job = await after.wait(accepted)
    expect(job).toMatchObject({ status: "done" })
    expect(await after.operator.listSpending()).toMatchObject([{ day: "1", reserved: "0" }])
  },
)
