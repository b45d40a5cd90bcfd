import { expect, it } from "vitest"
import { guardedFetch } from "../src/index.ts"

const dispatchers = () =>
  ["1", "2"].map((version): unknown => Reflect.get(globalThis, Symbol.for(`undici.globalDispatcher.${version}`)))

// In a file of its own: undici does this once, when it is loaded for the first time in a process.
it("Node's own fetch keeps its proxies when strangers' addresses are fetched by undici", async () => {
  void new Request("http://localhost/")
  const [before] = dispatchers()
  expect(before).toBeDefined()
  // As in a Node whose own undici knows nothing of the second place.
  Reflect.set(globalThis, Symbol.for("undici.globalDispatcher.2"), undefined)
  await expect(guardedFetch({ maxBytes: 1 })("http://127.0.0.1/")).rejects.toThrow("address")
  const [after, loaded] = dispatchers()
  expect(loaded).toBeDefined()
  expect(after).toBe(before)
})
