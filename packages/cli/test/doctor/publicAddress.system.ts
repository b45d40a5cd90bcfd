import { run, serve, temporaryDirectory } from "@kiln/service-lab"
import { expect, it } from "vitest"
import { checkOf, diagnose } from "./diagnose.ts"

it("recognizes its own processes at the public address, and those of another installation", async () => {
  using mine = temporaryDirectory()
  using other = temporaryDirectory()
  await using own = await serve({ KILN_DATA_DIR: mine.path })
  await using foreign = await serve({ KILN_DATA_DIR: other.path })
  const at = (url: string) => diagnose({ KILN_DATA_DIR: mine.path, PUBLIC_URL: url })
  const right = await at(own.listening.url)
  expect([checkOf(right, "public-url").status, checkOf(right, "signing-keys").status]).toEqual(["ok", "ok"])
  const wrong = await at(foreign.listening.url)
  expect(checkOf(wrong, "public-url").status).toBe("ok")
  expect(checkOf(wrong, "signing-keys")).toEqual({
    status: "problem",
    seen: expect.stringMatching(
      /^4 of 4 requests to http.* were answered by a process that rejects this installation's URLs$/,
    ),
    remedy: expect.stringContaining("see whether the proxy forwards to another installation"),
  })
  const { exit, stdout } = await run(["doctor"], { KILN_DATA_DIR: mine.path, PUBLIC_URL: foreign.listening.url })
  expect(exit).toBe(1)
  expect(stdout).toMatch(/^WRONG {2}signing-keys +4 of 4 requests/m)
  expect(stdout).toMatch(/^ +fix: see whether the proxy forwards/m)
})
