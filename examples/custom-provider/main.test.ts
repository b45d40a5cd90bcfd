import { execFile } from "node:child_process"
import { join } from "node:path"
import { promisify } from "node:util"
import { expect, it } from "vitest"

it("distinguishes failures: retried, rejected permanently, or waiting for the operator", async () => {
  const main = join(import.meta.dirname, "main.ts")
  const { stderr, stdout } = await promisify(execFile)(process.execPath, ["--conditions=@kiln/source", main])
  expect(stderr).toBe("")
  expect(stdout).toBe(`hello
  the server answers 200
  done, charged 0.05
out of order for a moment
  the server answers 503
  the server answers 200
  done, charged 0.25
something it will not say
  the server answers 451
  content_rejected, charged 0
silent
  the server answers 200
  the server answers 200
  the server answers 200
  result_invalid, charged 0
hello, with a wrong key
  the server answers 401
  wait_timeout: the job is processing
  canceled_by_operator
`)
})
