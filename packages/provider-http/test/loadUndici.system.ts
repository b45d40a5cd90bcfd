import { expect, it } from "vitest"
import { guardedFetch } from "../src/index.ts"

const dispatchers = () =>
  ["1", "2"].map((version): unknown => Reflect.get(globalThis, Symbol.for(`undici.globalDispatcher.${version}`)))

// In a separate file: undici does this once, when it is first loaded in a process.
it("Node's own fetch keeps its proxies when undici fetches untrusted URLs", async () => {
  void new Request("http://localhost/")
  const [before] = dispatchers()
  expect(before).toBeDefined()
  // As in a Node whose built-in undici does not know the second global.
  Reflect.set(globalThis, Symbol.for("undici.globalDispatcher.2"), undefined)
  await expect(guardedFetch({ maxBytes: 1 })("http://127.0.0.1/")).rejects.toThrow("address")
  const [after, loaded] = dispatchers()
  expect(loaded).toBeDefined()
  expect(after).toBe(before)
})
