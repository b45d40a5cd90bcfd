import { setTimeout } from "node:timers/promises"
import { expect, it } from "vitest"
import { openPaymentService } from "./support/paymentService.ts"
import { readShop, startService, temporaryDirectory } from "./support/service.ts"

it.each([
  ["before", ["a", "b"]],
  ["after", ["a", "b", "c"]],
])("an order and its job exist together or not at all when the process is killed %s the commit", async (when, kept) => {
  using directory = temporaryDirectory()
  await using payments = await openPaymentService()
  {
    await using service = await startService(directory.path, payments.url, `${when}:3`)
    await service.place("a")
    await service.place("b")
    await expect(service.place("c")).rejects.toThrow("fetch failed")
    expect(await service.exited).toEqual([null, "SIGKILL"])
  }
  const shop = await readShop(directory.path)
  expect(shop).toMatchObject({ orders: kept, jobsOf: kept, jobs: kept.length })

  // The client repeats the order whose answer it did not get.
  await using service = await startService(directory.path, payments.url)
  expect(await service.place("c")).toMatchObject({ status: 202, order: { id: "c" } })
  for (const id of ["a", "b", "c"]) expect(await service.settled(id)).toMatchObject({ status: "paid" })
  expect([...payments.charges.keys()].toSorted()).toEqual(["order-a", "order-b", "order-c"])
})

it("forty orders are charged once each, although the service is killed while it charges them", async () => {
  using directory = temporaryDirectory()
  await using payments = await openPaymentService()
  const ids = Array.from({ length: 40 }, (_, index) => `order-${index + 10}`)
  const acknowledged: Array<string> = []
  {
    await using service = await startService(directory.path, payments.url)
    const placing = ids.map(async (id) => {
      const { status } = await service.place(id)
      if (status === 202) acknowledged.push(id)
    })
    // Some charges are made, and none of the first is answered yet.
    while (payments.calls() < 3) await setTimeout(5)
    service.kill("SIGKILL")
    await Promise.allSettled(placing)
  }
  expect(payments.charges.size).toBeGreaterThan(0)
  const shop = await readShop(directory.path)
  expect(shop.orders).toEqual(expect.arrayContaining(acknowledged))
  expect(shop.jobsOf).toEqual(shop.orders)
  expect(shop.jobs).toBe(shop.orders.length)

  await using service = await startService(directory.path, payments.url)
  for (const id of ids) if (!acknowledged.includes(id)) await service.place(id)
  const settled = await Promise.all(ids.map((id) => service.settled(id)))
  expect(settled.map(({ chargeId, status }) => [status, chargeId])).toEqual(
    ids.map((id) => ["paid", payments.charges.get(`order-${id}`)]),
  )
  expect(payments.charges.size).toBe(40)
  // Charges whose answers were lost were asked for again.
  expect(payments.calls()).toBeGreaterThan(40)
})
