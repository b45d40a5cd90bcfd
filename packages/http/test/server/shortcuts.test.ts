import { join } from "node:path"
import { expect, it } from "vitest"
import {
  beginsBeforeCommits,
  freesOwnPieces,
  keepsRequestsApart,
  loadModules,
  readsWholeBodies,
  sendsCommitsTogether,
  sendsTogether,
  stopsForGoneClients,
} from "./shortcuts.ts"

const modules = await loadModules(join(import.meta.dirname, "../../src"))

it("a short body is read to its end, wherever it is cut", async () => {
  expect(await readsWholeBodies(modules)).toBe(true)
})

it("concurrent requests get their own bodies and request ids", async () => {
  expect(await keepsRequestsApart(modules)).toBe(true)
})

it("replies that are ready in one turn are sent together", async () => {
  expect(await sendsTogether(modules)).toBe(true)
})

it("replies of one commit are sent together", async () => {
  expect(await sendsCommitsTogether(modules)).toBe(true)
})

it("a request that arrives before a commit can share it", async () => {
  expect(await beginsBeforeCommits(modules)).toBe(true)
})

it("a request whose client has gone stops waiting", async () => {
  expect(await stopsForGoneClients(modules)).toBe(true)
})

it("pieces of a body can be freed, unless another program may hold them", async () => {
  expect(await freesOwnPieces(modules)).toBe(true)
})
