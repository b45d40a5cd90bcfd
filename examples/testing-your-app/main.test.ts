import { spawnSync } from "node:child_process"
import { expect, it } from "vitest"

it("the tests of the app pass in node:test", () => {
  const { NODE_OPTIONS: _, NODE_TEST_CONTEXT: __, ...env } = process.env
  const { status, stderr, stdout } = spawnSync(
    process.execPath,
    ["--conditions=@kiln/source", "--test", "--test-reporter=tap", "orders-test.ts"],
    { cwd: import.meta.dirname, encoding: "utf8", env, timeout: 60_000 },
  )
  expect(`${stdout}${stderr}`).not.toContain("not ok")
  const tests = stdout.matchAll(/^ +(ok \d - .+)$/gm)
  expect([...tests].map(([, line]) => line)).toEqual([
    "ok 1 - is confirmed with a spoken message",
    "ok 2 - is a single order, however often it is placed",
    "ok 3 - is confirmed when the provider works again",
    "ok 4 - is confirmed in writing if there is no message",
    "ok 5 - keeps its message for thirty days",
  ])
  expect(status).toBe(0)
})
