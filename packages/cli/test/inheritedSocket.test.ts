import { Effect } from "effect"
import { expect, it } from "vitest"
import { inheritedSocket } from "../src/serve/serve.ts"

const found = (environment: Readonly<Record<string, string>>) => Effect.runPromise(inheritedSocket(environment, 42))

it.each([
  ["nothing", {}, undefined],
  ["one socket", { LISTEN_FDS: "1", LISTEN_PID: "42" }, 3],
  ["a socket for another process, whose variables were inherited", { LISTEN_FDS: "1", LISTEN_PID: "41" }, undefined],
  ["a process without a count", { LISTEN_PID: "42" }, undefined],
] as const)("a supervisor that passes %s", async (_, environment, expected) => {
  expect(await found(environment)).toBe(expected)
})

it("a unit with several sockets is rejected with the remedy", async () => {
  await expect(found({ LISTEN_FDS: "2", LISTEN_PID: "42" })).rejects.toThrow("use one ListenStream= per unit")
})
