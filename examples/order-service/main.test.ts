import { expect, it } from "vitest"
import { openPaymentService } from "./support/paymentService.ts"
import { readShop, startService, temporaryDirectory } from "./support/service.ts"

it("an order is charged once, however often it is placed and whatever the payment service does", async () => {
  using directory = temporaryDirectory()
  await using payments = await openPaymentService()
  await using service = await startService(directory.path, payments.url)

  const [first, second] = await Promise.all([service.place("a-1"), service.place("a-1")])
  expect([first.status, second.status]).toEqual([202, 202])
  expect(second.order.jobId).toBe(first.order.jobId)
  expect(await service.settled("a-1")).toMatchObject({ status: "paid", chargeId: "ch_1" })

  await service.place("a-2", { amount: 5, card: "flaky" })
  expect(await service.settled("a-2")).toMatchObject({ status: "paid", chargeId: "ch_2" })
  await service.place("a-3", { amount: 5, card: "declined" })
  expect(await service.settled("a-3")).toMatchObject({ status: "declined", chargeId: null })
  expect([...payments.charges.keys()]).toEqual(["order-a-1", "order-a-2"])

  expect(await service.place("a-1", { amount: 7, card: "valid" })).toMatchObject({ status: 409 })
  expect(await service.place("a-4", { amount: 0, card: "valid" })).toMatchObject({ status: 400 })
  service.kill("SIGTERM")
  expect(await service.exited).toEqual([0, null])
  const shop = await readShop(directory.path)
  expect(shop).toMatchObject({ orders: ["a-1", "a-2", "a-3"], statuses: ["done", "done", "failed"], jobs: 3 })
})
