// Tests of an app in `node:test`: `node --test orders-test.ts`. With jest or vitest, only the first line would differ.
// oxlint-disable typescript/no-floating-promises -- node:test waits for its tests
import assert from "node:assert/strict"
import { describe, it } from "node:test"
import { testEngine } from "@kiln/testing"
import { assertCharged, assertFailed, assertSubmitted } from "@kiln/testing/assert"
import { Orders } from "./Orders.ts"

const order = { id: "17", customer: "Ada" }

describe("an order", () => {
  it("is confirmed with a spoken message", async () => {
    await using kiln = await testEngine()
    const mails: Array<string> = []
    using orders = new Orders(kiln, (to, text) => mails.push(`${to}: ${text}`))

    const message = await orders.place(order)

    await assertSubmitted(kiln, "speech_synthesis", { input: "Thank you, Ada. Order 17 is on its way." })
    assert.deepEqual(mails, ["Ada: Your order is confirmed: listen to our message."])
    assert.ok((await orders.message(message))?.length)
    assertCharged(await kiln.get(message), { amount: "0.39", currency: "usd" })
  })

  it("is a single order, however often it is placed", async () => {
    await using kiln = await testEngine()
    using orders = new Orders(kiln, () => {})
    assert.equal(await orders.place(order), await orders.place(order))
    await assertSubmitted(kiln, "speech_synthesis", {}, { times: 1 })
  })

  it("is confirmed when the provider works again", async () => {
    await using kiln = await testEngine({ mode: "manual" })
    const mails: Array<string> = []
    using orders = new Orders(kiln, (to) => mails.push(to))
    kiln.providers.speech.fail("provider_unavailable", { retryAfterMs: 60_000 })

    const message = await orders.place(order)
    await kiln.drain()
    assert.deepEqual(mails, [])
    assert.equal(await orders.message(message), undefined)

    await kiln.advance("1 minute")
    await kiln.drain()
    assert.deepEqual(mails, ["Ada"])
  })

  it("is confirmed in writing if there is no message", async () => {
    await using kiln = await testEngine()
    const mails: Array<string> = []
    using orders = new Orders(kiln, (_, text) => mails.push(text))
    kiln.providers.speech.fail("content_rejected")
    assertFailed(await kiln.get(await orders.place(order)), "content_rejected")
    assert.deepEqual(mails, ["Your order is confirmed."])
  })

  it("keeps its message for thirty days", async () => {
    await using kiln = await testEngine()
    using orders = new Orders(kiln, () => {})
    const message = await orders.place(order)
    await kiln.advance("29 days")
    assert.ok(await orders.message(message))
    await kiln.advance("1 day")
    assert.equal(await orders.message(message), undefined)
  })
})
