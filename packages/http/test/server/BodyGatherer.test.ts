import { Effect } from "effect"
import { expect, it } from "vitest"
import { BodyGatherer } from "../../src/server/BodyGatherer.ts"
import { PieceBudget } from "../../src/server/PieceBudget.ts"

const make = () => {
  const state = { stopped: false, cut: false }
  const body = new BodyGatherer(new PieceBudget(), {
    stop: () => void (state.stopped = true),
    go: () => void (state.stopped = false),
    cut: () => void (state.cut = true),
    defer: queueMicrotask,
  })
  return { body, state }
}

const readAll = async (body: BodyGatherer, minBytes = 1) => {
  const pieces: Array<Uint8Array> = []
  const end = await Effect.runPromise(body.read((piece) => pieces.push(piece) > 0, { minBytes }))
  return { end, pieces, text: Buffer.concat(pieces).toString() }
}

it("gathers one-byte pieces into few buffers, in order", async () => {
  const { body } = make()
  const text = "0123456789".repeat(4_000)
  for (const letter of text) body.push(Buffer.from(letter))
  body.finish("complete")
  const { end, pieces, text: read } = await readAll(body)
  expect([end, read === text]).toEqual(["complete", true])
  expect(pieces.length).toBeLessThan(5)
})

it("passes large pieces on unchanged, between small ones", async () => {
  const { body } = make()
  const large = Buffer.alloc(5_000, "b")
  for (const piece of [Buffer.from("a"), large, Buffer.from("c")]) body.push(piece)
  body.finish("complete")
  const { pieces, text } = await readAll(body)
  expect(pieces[1]).toBe(large)
  expect(text).toBe(`a${"b".repeat(5_000)}c`)
})

it("pauses the sender while nobody reads, and resumes it when half is read", async () => {
  const { body, state } = make()
  for (let n = 0; n < 8; n++) body.push(Buffer.alloc(8_192))
  expect(state.stopped).toBe(true)
  let bytes = 0
  await Effect.runPromise(body.read((piece) => (bytes += piece.length) < 40_960))
  expect([bytes, state.stopped]).toEqual([40_960, false])
})

it("makes senders of small pieces wait in line once their shared allowance is used up", async () => {
  const { body, state } = make()
  for (let n = 0; n < 12_064; n++) body.push(Buffer.from("x"))
  expect(state.stopped).toBe(false)
  body.push(Buffer.from("x"))
  expect(state.stopped).toBe(true)
  while (state.stopped) await new Promise((resolve) => setTimeout(resolve, 5))
})

it("a reader that discards the body stops at a trickle, and its sender is cut off", async () => {
  const { body, state } = make()
  const end = Effect.runPromise(body.read(() => true, { stopsAtTrickle: true }))
  for (let n = 0; n < 20_000; n++) body.push(Buffer.from("x"))
  expect(await end).toBe("stopped")
  expect(state).toEqual({ stopped: true, cut: false })
  body.abandon()
  expect(state.cut).toBe(true)
})

it("a sender that starts to trickle once nobody reads is also cut off", () => {
  const { body, state } = make()
  body.abandon()
  for (let n = 0; n < 12_064; n++) body.push(Buffer.from("x"))
  expect(state.cut).toBe(false)
  body.push(Buffer.from("x"))
  expect(state.cut).toBe(true)
})

it("a broken body fails, regardless of how much was gathered", async () => {
  const { body } = make()
  body.push(Buffer.from("abc"))
  body.finish("broken")
  body.finish("complete")
  expect(await readAll(body)).toMatchObject({ end: "broken", pieces: [] })
})

it("an interrupted read loses nothing", async () => {
  const { body } = make()
  const interrupted = await Effect.runPromise(
    Effect.timeoutOption(
      body.read(() => true, { minBytes: 10 }),
      1,
    ),
  )
  expect(interrupted._tag).toBe("None")
  body.push(Buffer.from("abc"))
  body.finish("complete")
  expect((await readAll(body)).text).toBe("abc")
})
